"""A change is tested with what it touches and with the layers above, nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dev.tools.changed import EVERYTHING, NEEDS, SHOAL, changed_files, needed_tests

ROOT = Path(__file__).resolve().parents[5]


@pytest.mark.parametrize(
    ("file", "package", "included", "excluded"),
    [
        ("packages/shoal/src/shoal/cli/main.py", SHOAL, "tests/cli", "tests/verbs"),
        ("packages/shoal/src/shoal/settings/names.py", SHOAL, "tests", ""),
        ("packages/shoal/tests/settings/test_names.py", SHOAL, "tests/settings/test_names.py", ""),
        ("packages/shoal/tests/settings/environment_file.py", SHOAL, "tests", ""),
        ("packages/shoal-local/src/shoal_local/server.py", "packages/shoal-local", "tests", ""),
        ("packages/stand-ins/smddp/setup.py", SHOAL, "tests/training_code", "tests/cli"),
        ("stacks/network.py", SHOAL, "tests/stacks", "tests/cli"),
        ("docs/architecture.md", SHOAL, "tests/docs", "tests/cli"),
        ("CONTRIBUTING.md", SHOAL, "tests/docs", "tests/cli"),
    ],
)
def test_a_change_needs_these_tests(file: str, package: str, included: str, excluded: str) -> None:
    names = needed_tests([file], ROOT)[package]
    assert included in names
    assert excluded not in names


def test_what_no_row_names_needs_every_test() -> None:
    assert set(needed_tests(["requirements.in"], ROOT)) == set(EVERYTHING)


def test_a_test_that_was_deleted_is_not_run() -> None:
    assert needed_tests(["packages/shoal/tests/settings/test_of_yesterday.py"], ROOT) == {}


def test_every_row_names_what_exists() -> None:
    assert [start for start in NEEDS if not (ROOT / start).is_dir()] == []
    named = [
        ROOT / package / path
        for needs in NEEDS.values()
        for package, paths in needs.items()
        for path in paths
    ]
    assert [path for path in named if not path.exists()] == []


def test_what_differs_from_main_is_what_was_committed_changed_or_added(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        subprocess.run(command, check=True, capture_output=True)

    git("init", "--initial-branch", "main")
    for name in ("same", "changed", "committed"):
        (tmp_path / name).write_text("before")
    git("add", ".")
    git("commit", "--message", "First")
    git("checkout", "-b", "work")
    (tmp_path / "committed").write_text("after")
    git("commit", "--all", "--message", "Second")
    (tmp_path / "changed").write_text("after")
    (tmp_path / "added").write_text("new")
    assert sorted(changed_files(tmp_path)) == ["added", "changed", "committed"]
