"""The regression, and what `shoal new` writes, trains on two processes, passes its own gates, and
answers as its own smoke test asks.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from shoal.aws.model_archive import content_sha256
from shoal.settings.loading.workload import workload_folder
from shoal.verbs.new_workload import write_workload
from tests.repository import CHECKOUT
from tests.training_code.table_job import fit_constant_column, prepare, train

TASKS = ("regression", "classification")


def root_of(workload: str, folder: Path) -> Path:
    """Return the root of a workload of the checkout, or of one that is written for a task."""
    if workload not in TASKS:
        return CHECKOUT
    write_workload(folder, workload, workload)
    return folder


@pytest.mark.parametrize(
    "workload", ["houses", *(pytest.param(task, marks=pytest.mark.nightly) for task in TASKS)]
)
def test_it_works_at_once(runtime: Runtime, tmp_path: Path, workload: str) -> None:
    (tmp_path / "job").mkdir()
    trained = train(root_of(workload, tmp_path), workload, runtime, tmp_path / "job")
    assert "world_size=2" in trained.output or workload in TASKS  # which do not say it
    assert trained.failed_gates() == []
    with trained.archive.open("rb") as archive:
        assert trained.evaluation.content_sha256 == content_sha256(archive)
    tested = trained.smoke_test(tmp_path)
    assert not tested.error
    assert tested.result["status"] == "Passed"


@pytest.mark.parametrize("workload", ["houses", "regression"])
def test_an_interrupted_and_resumed_job_equals_an_undisturbed_one_to_the_bit(
    runtime: Runtime, tmp_path: Path, workload: str
) -> None:
    root = root_of(workload, tmp_path)
    script = workload_folder(workload, root) / "pytorch" / "train.py"
    data = prepare(root, workload, tmp_path / "data")

    def trained(name: str, epochs: int) -> str:
        folders = {"SM_CHANNEL_TRAIN": data / "train", "SM_MODEL_DIR": tmp_path / name / "model"}
        command = runtime.torchrun(2, script, "--epochs", f"{epochs}")
        job = runtime.run(command, tmp_path, {key: f"{each}" for key, each in folders.items()})
        assert job.returncode == 0, job.output
        return job.output

    trained("undisturbed", 9)
    trained("interrupted", 4)  # its checkpoint is what a kill in the fifth epoch leaves
    (tmp_path / "interrupted" / "checkpoints" / "checkpoint.pt.partial").write_bytes(b"half")
    assert re.findall(r"epoch=(\d+)", trained("interrupted", 9)) == ["5", "6", "7", "8", "9"]
    names = ("undisturbed", "interrupted")
    first, second = (tmp_path / each / "model" / "model.pt" for each in names)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("workload", ["houses", *TASKS])
def test_a_constant_column_leaves_numbers(runtime: Runtime, tmp_path: Path, workload: str) -> None:
    root = root_of(workload, tmp_path)
    assert fit_constant_column(root, workload, runtime, tmp_path) == "True True\n"


def test_the_dataset_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = (prepare(CHECKOUT, "houses", tmp_path / name) for name in ("first", "second"))
    for channel in ("train", "test"):
        text = (first / channel / "people.csv").read_bytes()
        assert text == (second / channel / "people.csv").read_bytes()
        assert text.startswith(b"age,sex,bmi,bp,s1,s2,s3,s4,s5,s6,progression\n")
