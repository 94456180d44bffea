"""Sends the numbers that rank 0 prints to MLflow while it trains, where MLFLOW_TRACKING_URI is set.

A thread does it: training neither waits for a server nor fails without one, or without a client.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_NUMBER = re.compile(r"(?<!\S)([a-z]\w*)=([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?!\S)")
_STEP = re.compile(r"(?<!\S)step=(\d+)(?:/(\d+))?")
_worker = ThreadPoolExecutor(1, "mlflow")


def log(line: str) -> None:
    """Send the numbers of a line such as `epoch=1 step=3/9 train_loss=0.5`."""
    numbers, step = measured(line)
    if step and "MLFLOW_TRACKING_URI" in os.environ:
        _worker.submit(_run.send, numbers, step, round(time.time() * 1000))


def measured(line: str) -> tuple[dict[str, float], int]:
    """Return the numbers of a line, and its step over all epochs, or else its epoch, or 0."""
    numbers = {name: float(value) for name, value in _NUMBER.findall(line)}
    epoch, match = int(numbers.get("epoch", 0)), _STEP.search(line)
    return numbers, int(match[1]) + max(0, epoch - 1) * int(match[2] or 0) if match else epoch


class _Run:
    """The run in MLflow. After the first failure, which is said, nothing more is tried."""

    def __init__(self) -> None:
        self.client: Any = None
        self.failed = False

    def send(self, numbers: dict[str, float], step: int, at_ms: int) -> None:
        try:
            if self.failed:
                return
            if self.client is None:
                self._begin()
            from mlflow.entities import Metric

            metrics = [Metric(name, value, at_ms, step) for name, value in numbers.items()]
            self.client.log_batch(self.id, metrics)
        except Exception as error:  # noqa: BLE001 - a server's trouble is no training's
            self.failed = True
            print(f"MLflow gets no more of this training: {error}", flush=True)

    def _begin(self) -> None:
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")  # seconds
        import mlflow

        experiment = mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "Default"))
        tags = json.loads(os.environ.get("MLFLOW_RUN_CONTEXT", "{}"))
        name, client = os.environ.get("MLFLOW_RUN_NAME"), mlflow.MlflowClient()
        self.id = client.create_run(experiment.experiment_id, tags=tags, run_name=name).info.run_id
        where = f"#/experiments/{experiment.experiment_id}/runs/{self.id}"
        print(f"MLflow has this training at {mlflow.get_tracking_uri()}/{where}", flush=True)
        self.client = client
        atexit.register(self._end)

    def _end(self) -> None:
        """End the run. Python has waited until the worker has sent what there was."""
        if not self.failed:
            has_raised = hasattr(sys, "last_value")
            self.client.set_terminated(self.id, "FAILED" if has_raised else "FINISHED")


_run = _Run()
