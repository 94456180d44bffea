"""A change is tested with what it touches and with the layers above, nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dev.tools.changed import ELSEWHERE, TESTS, changed_files, layers, needed_tests

ROOT = Path(__file__).resolve().parents[3]


def _tests_of(*files: str) -> set[str]:
    return set(needed_tests(files, layers(ROOT), ROOT))


@pytest.mark.parametrize(
    ("file", "included", "excluded"),
    [
        ("shoal/cli/plan.py", "tests/cli", "tests/verbs"),
        ("shoal/verbs/logs.py", "tests/cli", "tests/pipelines"),
        ("stacks/app.py", "tests/identity", "local/tests"),
        ("stacks/functions/teardown/handler.py", "tests/end_to_end/test_sweep.py", "local/tests"),
        ("shoal/verbs/runs/page.py", "tests/browser", "tests/pipelines"),
        ("pipelines/graph.py", "tests/stacks", "tests/config"),
        ("config/rules.py", "tests/cli", "local/tests"),
        ("local/src/shoal_local/server.py", "local/tests", "tests/cli"),
        ("local/stand_ins/smddp/setup.py", "local/tests/smddp", "local/tests"),
        ("local/stand_ins/horovod/setup.py", "tests/training_code", "local/tests"),
        ("training_code/language/workload.yaml", "tests/config", "local/tests"),
        ("docs/architecture.md", "tests/docs", "tests/cli"),
        ("CONTRIBUTING.md", "tests/docs", "tests/cli"),
        ("config/settings.py", "tests/docs", "local/tests"),
        ("requirements.in", "tests", ""),
        ("tests/config/test_names.py", "tests/config/test_names.py", "tests/config"),
        ("tests/config/environment_file.py", "local/tests", "tests/config"),
        ("tests/fixtures/environments/dev.yaml", "tests", "tests/fixtures/environments"),
    ],
)
def test_a_change_needs_its_own_tests_and_those_above(
    file: str, included: str, excluded: str
) -> None:
    folders = _tests_of(file)
    assert included in folders
    assert excluded not in folders


def test_a_test_that_was_deleted_is_not_run() -> None:
    assert "tests/config/test_of_yesterday.py" not in _tests_of("tests/config/test_of_yesterday.py")


def test_every_layer_has_tests_and_every_folder_of_tests_exists() -> None:
    assert {name for row in layers(ROOT) for name in row} == set(TESTS)
    named = [path for paths in (*TESTS.values(), *ELSEWHERE.values()) for path in paths]
    assert [path for path in named if not (ROOT / path).exists()] == []


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
