"""Damaged MNIST files are refused with the errors of the PyTorch code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from tests.training_code.tensorflow.job import CODE
from tests.training_code.test_data import DAMAGES, SCRIPT


@pytest.fixture(scope="module")
def answers(
    tensorflow: Runtime, dataset: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("bad")
    outcome = tensorflow.run(
        tensorflow.alone(SCRIPT, CODE, dataset / "train", folder, folder / "answer.json"), folder
    )
    assert outcome.returncode == 0, outcome.output
    errors: dict[str, str] = json.loads((folder / "answer.json").read_text())
    return errors


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_what_is_wrong_with_a_file_is_said(
    answers: dict[str, str], damage: str, message: str
) -> None:
    assert message in answers[damage]
