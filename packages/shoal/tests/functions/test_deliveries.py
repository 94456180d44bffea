"""Many deliveries of schedules in one moment: one execution goes on, however many were begun."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local_kit.control import Account
from tests.functions.test_start import PIPELINE, account, event, load, release

__all__ = ["account", "release"]
pytestmark = pytest.mark.nightly

DELIVERIES = int(os.environ.get("SHOAL_LOAD_DELIVERIES", "20"))
DUE = "2026-12-01T03:00:00Z"


def executions(account: Account) -> list[dict[str, Any]]:
    pages = (
        account.client("sagemaker")
        .get_paginator("list_pipeline_executions")
        .paginate(PipelineName=PIPELINE)
    )
    return [each for page in pages for each in page["PipelineExecutionSummaries"]]


def test_of_many_deliveries_at_once_one_starts_an_execution_that_goes_on(
    account: Account, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of another schedule, so that no token makes two of them one.

    The quota of 20 executions may refuse some; Lambda tries again.
    """
    monkeypatch.setenv("PIPELINE_NAME", PIPELINE)
    function, together = load("start"), Barrier(DELIVERIES)
    wanted = [
        function.of_schedule(event(f"s{number}", DUE, {"Until": str(release)}))
        for number in range(DELIVERIES)
    ]
    clients = [account.client("sagemaker", Config()) for _ in wanted]

    def deliver(number: int) -> str:
        together.wait(60)
        while True:
            try:
                return str(function.start(clients[number], wanted[number]).status)
            except ClientError as refused:
                if refused.response["Error"]["Code"] != "ResourceLimitExceeded":
                    raise

    with ThreadPoolExecutor(DELIVERIES) as pool:
        outcomes = Counter(pool.map(deliver, range(DELIVERIES)))
    assert outcomes == {"started": 1, "overlap": DELIVERIES - 1}
    running = [
        each for each in executions(account) if each["PipelineExecutionStatus"] == "Executing"
    ]
    stopped = len(executions(account)) - 1
    print(
        f"load: {DELIVERIES} deliveries at once: 1 goes on, {stopped} were begun and stopped, the"
        " others begun by nobody"
    )
    assert len(running) == 1
