"""Which tests a change needs: those of what it touches and of the layers above."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path

ALWAYS = "tests/test_architecture.py"
PAGES = ("tests/test_readme.py", "tests/docs")
TESTS = {
    "config": ("tests/config", "tests/bad_input"),
    "pipelines": ("tests/pipelines", "tests/seeds", "tests/matrix"),
    "stacks": (
        "tests/stacks",
        "tests/functions",
        "tests/identity",
        "tests/end_to_end/test_teardown.py",  # what functions do in a running account
        "tests/end_to_end/test_sweep.py",
    ),
    "shoal.verbs": ("tests/verbs", "tests/browser", "tests/end_to_end/test_verbs.py"),
    "images": ("tests/images",),
    "shoal.demo": ("tests/end_to_end/test_demo.py",),
    "shoal.cli": ("tests/cli",),
    "dev": ("tests/dev", "tests/docs"),  # docs/reference shows commands and settings
}
"""Package of a layer -> its tests."""
ELSEWHERE = {
    "local/src": ("local/tests", "tests/end_to_end/test_spot.py"),
    "local/stand_ins": ("local/tests/smddp", "local/tests/horovod", "tests/training_code"),
    "training_code": ("tests/training_code", "tests/config", "tests/end_to_end/test_demo.py"),
    "environments": ("tests/config", "tests/workflows", "tests/cli/test_plan.py"),
    "images": ("tests/images", "tests/pipelines/launch"),
    "examples": ("tests/examples",),
    "docs": PAGES,
    ".github": ("tests/workflows",),
}
"""Folder outside the layers -> its tests."""
EVERYTHING = ("tests", "local/tests")


def tests_of_changes(root: Path) -> list[str]:
    """Return the tests of what differs from main, committed or not."""
    needed = set(needed_tests(changed_files(root), layers(root), root))
    return sorted(needed | {ALWAYS}) if needed else []


def changed_files(root: Path) -> list[str]:
    """Return the paths that differ from where this branch left main (`origin/main` if it is there).

    On main itself: what differs from its own upstream, or what is not committed.
    """
    known = ("origin/main", "main")
    base = next((name for name in known if _git(root, "rev-parse", "-q", "--verify", name)), "HEAD")
    start = _git(root, "merge-base", base, "HEAD") or ["HEAD"]
    untracked = _git(root, "ls-files", "--others", "--exclude-standard")
    return [*_git(root, "diff", "--name-only", start[0]), *untracked]


def layers(root: Path) -> list[list[str]]:
    """Return the layers of pyproject.toml's contract, the highest first."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    rows = next(each["layers"] for each in contracts if each["type"] == "layers")
    return [[name.strip() for name in row.split("|")] for row in rows]


def needed_tests(files: Iterable[str], rows: list[list[str]], root: Path) -> Iterable[str]:
    """Yield the folders and files of tests that `files` need.

    A fixture or a helper of tests needs all of them, because any may import it.
    """
    for file in files:
        if file.startswith(("tests/", "local/tests/")):
            if not Path(file).name.startswith("test_"):
                yield from EVERYTHING
            elif (root / file).is_file():
                yield file
        elif areas := [names for place, names in ELSEWHERE.items() if file.startswith(f"{place}/")]:
            yield from areas[0]
        elif above := _layer_and_those_above(file, rows):
            yield from (each for names in above for name in names for each in TESTS[name])
        elif file.endswith(".md"):
            yield from PAGES
        else:
            yield from EVERYTHING


def _layer_and_those_above(file: str, rows: list[list[str]]) -> list[list[str]]:
    """Return the layers down to the one of `file`, or none if it is in no layer."""
    return next((rows[: i + 1] for i, names in enumerate(rows) if _is_in(file, names)), [])


def _is_in(file: str, packages: Iterable[str]) -> bool:
    return any(file.startswith(f"{package.replace('.', '/')}/") for package in packages)


def _git(root: Path, *arguments: str) -> list[str]:
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []
