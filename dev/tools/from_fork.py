"""Move what a team made in a fork of commit 77a74b74 into a repository that `shoal init` wrote.

    .venv/bin/python dev/tools/from_fork.py FORK TEAM

Takes the environments that the fork has otherwise, and their workloads, instead of those in TEAM.
Then both synthesise with their own `.venv`, and what differs is printed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from shoal.verbs.upgrade.comparison import compare

BASE = "77a74b74"
"""The last commit at which the top level was all of Shoal."""


def main(fork: Path, team: Path) -> None:
    """Move and compare. Both are repositories of git, and TEAM has no changes."""
    if git(team, "status", "--porcelain"):
        raise SystemExit(f"from_fork: {team} has changes that are in no commit")
    changed = git(fork, "diff", "--name-only", "--diff-filter=d", BASE, "HEAD", "--").splitlines()
    files = [name for name in changed if re.fullmatch(r"environments/.*\.yaml", name)]
    text = "".join((fork / name).read_text() for name in files)
    words = {*re.findall(r"[\w-]+", re.sub("#.*", "", text))}
    words |= {name.split("/")[1] for name in changed if name.startswith("training_code/")}
    workloads = git(fork, "ls-files", "training_code/*/*").splitlines()
    files += [name for name in workloads if name.split("/")[1] in words]
    for place in (*team.glob("environments/*.yaml"), *team.glob("training_code/*/")):
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    for name in files:
        (team / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(fork / name, team / name)
    print(f"moved {len(files)} files; not moved, look whether they are yours:")
    left = [each for each in changed if each not in files]
    print("\n".join(f"  {name}" for name in left) or "  none")
    with tempfile.TemporaryDirectory() as folder:
        for place in (fork, team):
            variables = os.environ | {"CDK_OUTDIR": str(Path(folder, place.name))}
            program = [str(place / ".venv" / "bin" / "python"), "app.py"]
            subprocess.run(program, cwd=place, env=variables, check=True)
        print(compare(Path(folder, fork.name), Path(folder, team.name), team))


def git(folder: Path, *arguments: str) -> str:
    """Return what git prints in a folder."""
    return subprocess.check_output(["git", *arguments], cwd=folder, text=True)


if __name__ == "__main__":
    main(*(Path(each).resolve() for each in sys.argv[1:3]))
