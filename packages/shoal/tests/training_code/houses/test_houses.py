"""The regression: the same dataset each time, a model that passes its own gates on two processes,
and answers that pass its own smoke test.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.launch import resolve
from shoal.settings.loading.workload import load_workload
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.settings import Framework, Strategy, Training
from tests.repository import CHECKOUT
from tests.training_code.table_job import prepare


def test_the_dataset_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = (prepare(CHECKOUT, "houses", tmp_path / name) for name in ("first", "second"))
    for channel in ("train", "test"):
        text = (first / channel / "people.csv").read_bytes()
        assert text == (second / channel / "people.csv").read_bytes()
        assert text.startswith(b"age,sex,bmi,bp,s1,s2,s3,s4,s5,s6,progression\n")


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
