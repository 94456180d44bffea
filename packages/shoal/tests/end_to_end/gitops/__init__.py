"""What a release story in git needs: a repository, traffic, and a release that fails."""
