"""What `shoal new` writes for a table trains on two processes, passes its own gates, and answers as
its own smoke test asks.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from shoal.aws.model_archive import content_sha256
from shoal.settings.loading.workload import workload_folder
from shoal.verbs.new_workload import TASKS, write_workload
from tests.training_code.table_job import fit_constant_column, prepare, train


@pytest.mark.parametrize(
    "task", ["regression", pytest.param("classification", marks=pytest.mark.nightly)]
)
def test_it_works_at_once(runtime: Runtime, tmp_path: Path, task: str) -> None:
    (tmp_path / "job").mkdir()
    write_workload(tmp_path, "fresh", task)
    trained = train(tmp_path, "fresh", runtime, tmp_path / "job")
    assert trained.failed_gates() == []
    with trained.archive.open("rb") as archive:
        assert trained.evaluation.content_sha256 == content_sha256(archive)
    tested = trained.smoke_test(tmp_path)
    assert not tested.error
    assert tested.result["status"] == "Passed"


def test_an_interrupted_and_resumed_job_equals_an_undisturbed_one_to_the_bit(
    runtime: Runtime, tmp_path: Path
) -> None:
    write_workload(tmp_path, "fresh", "regression")
    script = workload_folder("fresh", tmp_path) / "pytorch" / "train.py"
    data = prepare(tmp_path, "fresh", tmp_path / "data")

    def trained(name: str, epochs: int) -> str:
        folders = {"SM_CHANNEL_TRAIN": data / "train", "SM_MODEL_DIR": tmp_path / name / "model"}
        command = runtime.torchrun(2, script, "--epochs", f"{epochs}")
        job = runtime.run(command, tmp_path, {key: f"{each}" for key, each in folders.items()})
        assert job.returncode == 0, job.output
        return job.output

    trained("undisturbed", 3)
    trained("interrupted", 1)  # its checkpoint is what a kill in the second epoch leaves
    (tmp_path / "interrupted" / "checkpoints" / "checkpoint.pt.partial").write_bytes(b"half")
    assert re.findall(r"epoch=(\d+)", trained("interrupted", 3)) == ["2", "3"]
    names = ("undisturbed", "interrupted")
    first, second = (tmp_path / each / "model" / "model.pt" for each in names)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("task", TASKS)
def test_a_constant_column_leaves_numbers(runtime: Runtime, tmp_path: Path, task: str) -> None:
    write_workload(tmp_path, "fresh", task)
    assert fit_constant_column(tmp_path, "fresh", runtime, tmp_path) == "True True\n"


def test_the_dataset_is_the_same_each_time(tmp_path: Path) -> None:
    write_workload(tmp_path, "fresh", "regression")
    first, second = (prepare(tmp_path, "fresh", tmp_path / name) for name in ("first", "second"))
    for channel in ("train", "test"):
        text = (first / channel / "trips.csv").read_bytes()
        assert text == (second / channel / "trips.csv").read_bytes()
        assert text.startswith(b"distance_km,stops,load_kg,minutes\n")
