"""The regression: the same dataset each time, a model that passes its own gates on two processes,
and answers that pass its own smoke test.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from shoal.aws.model_archive import content_sha256
from shoal.launch import resolve
from shoal.settings.loading.workload import load_workload
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.settings import Framework, Strategy, Training
from tests.repository import CHECKOUT
from tests.training_code.table_job import Trained, fit_constant_column, prepare, train


@pytest.fixture(scope="module")
def trained(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(CHECKOUT, "houses", runtime, tmp_path_factory.mktemp("houses"))


def test_the_dataset_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = (prepare(CHECKOUT, "houses", tmp_path / name) for name in ("first", "second"))
    for channel in ("train", "test"):
        text = (first / channel / "people.csv").read_bytes()
        assert text == (second / channel / "people.csv").read_bytes()
        assert text.startswith(b"age,sex,bmi,bp,s1,s2,s3,s4,s5,s6,progression\n")


def test_the_model_passes_its_gates(trained: Trained) -> None:
    assert trained.failed_gates() == []


def test_two_processes_trained_it(trained: Trained) -> None:
    assert "world_size=2" in trained.output


def test_the_report_has_the_digest_that_promotion_computes(trained: Trained) -> None:
    with trained.archive.open("rb") as archive:
        assert trained.evaluation.content_sha256 == content_sha256(archive)


def test_its_answers_pass_its_smoke_test(trained: Trained, tmp_path: Path) -> None:
    tested = trained.smoke_test(tmp_path)
    assert not tested.error
    assert tested.result["status"] == "Passed"


def test_a_column_that_is_constant_leaves_the_answers_numbers(
    runtime: Runtime, tmp_path: Path
) -> None:
    assert fit_constant_column(CHECKOUT, "houses", runtime, tmp_path) == "True True\n"


def test_an_image_whose_python_has_no_filter_in_tarfile_is_refused() -> None:
    oldest = load_workload("houses", CHECKOUT).frameworks[Framework.PYTORCH].min_python
    training = Training(
        source_dir="training_code/houses/pytorch",
        strategy=Strategy.TORCHRUN,
        framework_version="2.2.0",
        min_python=oldest,
    )
    with pytest.raises(LaunchError, match=r"has Python 3\.10, and .*houses/pytorch needs 3\.11"):
        resolve(training, "us-east-1", root=CHECKOUT)
