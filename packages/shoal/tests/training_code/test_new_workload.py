"""What `shoal new` writes trains, passes its own gates, and answers as its own smoke test asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from shoal.aws.model_archive import content_sha256
from shoal.verbs.new_workload import write_workload
from tests.training_code.table_job import fit_constant_column, train


@pytest.mark.nightly
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_it_works_at_once(runtime: Runtime, tmp_path: Path, task: str) -> None:
    write_workload(tmp_path, "fresh", task)
    (tmp_path / "job").mkdir()
    trained = train(tmp_path, "fresh", runtime, tmp_path / "job")
    assert trained.failed_gates() == []
    with trained.archive.open("rb") as archive:
        assert trained.evaluation.content_sha256 == content_sha256(archive)
    tested = trained.smoke_test(tmp_path)
    assert not tested.error
    assert tested.result["status"] == "Passed"


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_column_that_is_constant_leaves_the_answers_numbers(
    runtime: Runtime, tmp_path: Path, task: str
) -> None:
    write_workload(tmp_path, "fresh", task)
    assert fit_constant_column(tmp_path, "fresh", runtime, tmp_path) == "True True\n"
