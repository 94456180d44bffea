"""Which tests a change needs: those of the package that it touches, and of what stands on it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

SHOAL, SHOAL_LOCAL, STAND_INS, TEAM = (
    "packages/shoal",
    "packages/shoal-local",
    "packages/stand-ins",
    ".",
)
NEEDS: dict[str, dict[str, tuple[str, ...]]] = {
    f"{SHOAL}/src/shoal/cli/": {SHOAL: ("tests/cli",)},
    f"{SHOAL}/src/shoal/verbs/": {SHOAL: ("tests/cli", "tests/verbs", "tests/end_to_end")},
    f"{SHOAL}/src/shoal/page/": {SHOAL: ("tests/cli", "tests/verbs", "tests/browser")},
    f"{SHOAL}/": {SHOAL: ("tests",), TEAM: ("tests",)},
    f"{SHOAL_LOCAL}/": {SHOAL_LOCAL: ("tests",), SHOAL: ("tests/end_to_end",)},
    f"{STAND_INS}/": {STAND_INS: ("tests",), SHOAL: ("tests/training_code",)},
    "training_code/": {SHOAL: ("tests/training_code", "tests/settings"), TEAM: ("tests",)},
    "environments/": {SHOAL: ("tests/settings", "tests/workflows"), TEAM: ("tests",)},
    "stacks/": {SHOAL: ("tests/stacks", "tests/identity"), TEAM: ("tests",)},
    "pipelines/": {SHOAL: ("tests/pipelines", "tests/stacks"), TEAM: ("tests",)},
    "tests/": {TEAM: ("tests",)},
    "docs/": {SHOAL: ("tests/docs", "tests/test_readme.py")},
    "examples/": {SHOAL: ("tests/examples",)},
    "images/": {SHOAL: ("tests/images", "tests/pipelines/launch")},
    ".github/": {SHOAL: ("tests/workflows",)},
    "dev/": {SHOAL: ("tests/dev", "tests/docs")},
}
"""Start of a path -> package -> its folders of tests; the first row that fits counts."""
EVERYTHING: dict[str, tuple[str, ...]] = dict.fromkeys(
    (SHOAL, SHOAL_LOCAL, STAND_INS, TEAM), ("tests",)
)
ALWAYS = "tests/test_architecture.py"


def tests_of_changes(root: Path) -> dict[str, list[str]]:
    """Return the tests of what differs from main, committed or not, by package."""
    return needed_tests(changed_files(root), root)


def changed_files(root: Path) -> list[str]:
    """Return the paths that differ from where this branch left main (`origin/main` if it is there).

    On main itself: what differs from its own upstream, or what is not committed.
    """
    known = ("origin/main", "main")
    base = next((name for name in known if _git(root, "rev-parse", "-q", "--verify", name)), "HEAD")
    start = _git(root, "merge-base", base, "HEAD") or ["HEAD"]
    untracked = _git(root, "ls-files", "--others", "--exclude-standard")
    return [*_git(root, "diff", "--name-only", start[0]), *untracked]


def needed_tests(files: Iterable[str], root: Path) -> dict[str, list[str]]:
    """Return the folders and files of tests that `files` need, by package.

    A test needs itself; a fixture or a helper of tests all tests of its package.
    """
    needed: dict[str, set[str]] = {}
    for file in files:
        for package, names in _needs_of(file, root).items():
            needed.setdefault(package, {ALWAYS} if package == SHOAL else set()).update(names)
    return {package: sorted(names) for package, names in needed.items()}


def _needs_of(file: str, root: Path) -> dict[str, tuple[str, ...]]:
    package = next((each for each in EVERYTHING if file.startswith(f"{each}/tests/")), None)
    if package and Path(file).name.startswith("test_"):
        return {package: (file.removeprefix(f"{package}/"),)} if (root / file).is_file() else {}
    if package:
        return {package: ("tests",)}
    rows = (needs for start, needs in NEEDS.items() if file.startswith(start))
    return next(rows, NEEDS["docs/"] if file.endswith(".md") else EVERYTHING)


def _git(root: Path, *arguments: str) -> list[str]:
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []
