"""What jobs are made of, one by one: reasons, metrics, and what is imported later."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from shoal_local.sagemaker.container import host
from shoal_local.sagemaker.jobs.base.job import failure_reason
from shoal_local.sagemaker.jobs.base.logs import LogStreams
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


class Logs:
    """CloudWatch Logs, which takes a batch in order of time or not at all."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def create_log_group(self, **_: str) -> None: ...

    def create_log_stream(self, **_: str) -> None: ...

    def put_log_events(self, **request: Any) -> dict[str, Any]:
        times = [each["timestamp"] for each in request["logEvents"]]
        if times != sorted(times):
            answer: Any = {"Error": {"Code": "InvalidParameterException"}}
            raise ClientError(answer, "PutLogEvents")
        self.messages += [each["message"] for each in request["logEvents"]]
        return {}


def test_a_log_is_delivered_whole_though_the_clock_steps_back(tmp_path: Path) -> None:
    logs, ticks = Logs(), iter([100.0, 100.0, 99.5, 100.1])
    stream = LogStreams(logs, "jobs", "job", tmp_path / "log", lambda: next(ticks))
    for line in ("first", "second", "third"):
        stream.write("algo-1", line)
    stream.close()
    stream.write("algo-1", "after the end")
    assert logs.messages == ["first", "second", "third"]
    assert stream.tail(9) == ["algo-1 first", "algo-1 second", "algo-1 third"]


def test_a_log_that_is_refused_says_so_in_its_file(tmp_path: Path) -> None:
    values: dict[str, Any] = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    config = Config(region_name="us-east-1", retries={"total_max_attempts": 1})
    logs = boto3.client("logs", endpoint_url="http://127.0.0.1:1", config=config, **values)
    stream = LogStreams(logs, "jobs", "job", tmp_path / "log")
    stream.write("algo-1", "first")
    stream.close()
    first, refusal = stream.tail(9)
    assert first == "algo-1 first"
    assert "has not all lines: Could not connect to the endpoint URL" in refusal
