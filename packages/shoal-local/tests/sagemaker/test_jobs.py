"""What jobs are made of, one by one: reasons, metrics, and what is imported later."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal_local.sagemaker.container import host
from shoal_local.sagemaker.jobs.base.job import failure_reason
from shoal_local.sagemaker.jobs.training.metrics import Metrics

INSIDE = Path(host.__file__).parent / "inside"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (
            f"AlgorithmError: {'x' * 2000}, exit code: 137",
            f"AlgorithmError: {'x' * 992}, exit code: 137",
        ),
        # words after an exit code, which are cut like the others
        (
            f"ClientError: x, exit code: 9 {'z' * 2000}",
            f"ClientError: x, exit code: 9 {'z' * 995}",
        ),
        (f"ClientError: {'y' * 2000}", f"ClientError: {'y' * 1011}"),
        ("ClientError: short", "ClientError: short"),
    ],
)
def test_a_failure_reason_fits_the_1024_characters_that_the_api_has(
    reason: str, shown: str
) -> None:
    assert failure_reason(reason) == shown


def test_a_match_by_an_alternative_without_the_first_group_has_no_value() -> None:
    values: list[tuple[str, float]] = []
    definition = {"Name": "loss", "Regex": r"loss=(\d+)|accuracy=(\d+)"}
    metrics = Metrics([definition], lambda name, value: values.append((name, value)))
    for line in ("loss=2", "accuracy=1"):
        metrics.see(line)
    assert values == [("loss", 2.0)]
    assert [each["Value"] for each in metrics.final()] == [2.0]


def test_a_module_is_imported_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "used_later.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    imported_later: Any = runpy.run_path(str(INSIDE / "later.py"))["imported_later"]
    with imported_later("used_later"):
        module: Any = importlib.import_module("used_later")
    assert "used_later" not in sys.modules
    assert module.value == 7
    assert "used_later" in sys.modules


@pytest.mark.parametrize(
    ("code", "needed"),
    [("import torch\n", True), ("import json\n", False), (None, True)],
    ids=["named", "not named", "no code"],
)
def test_a_model_whose_code_does_not_name_pytorch_does_not_wait_for_it(
    tmp_path: Path, code: str | None, needed: bool
) -> None:
    if code is not None:
        (tmp_path / "inference.py").write_text(code)
    needs_pytorch: Any = runpy.run_path(str(INSIDE / "serve_model.py"))["needs_pytorch"]
    assert needs_pytorch(tmp_path) is needed
