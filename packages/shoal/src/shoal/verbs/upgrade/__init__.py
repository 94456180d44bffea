"""`shoal upgrade`: a team's repository goes over to another version of Shoal, in one commit.

The installed version renders its template, locks the new version and installs it apart (`begin`).
The new one then renders its own, merges, migrates and compares (`finish`). All of it happens in a
worktree below `.shoal/upgrade`, so that the checkout and `.venv` stay as they are until somebody
takes the branch.
"""
