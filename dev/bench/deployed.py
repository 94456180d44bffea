"""The environment dev, deployed to an emulator of the bench's own, with MNIST in its bucket;
everything is gone at the end.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.loader import load_environment
from config.names import Names
from config.settings import Environment
from dev.bench.machine import REPOSITORY
from dev.bench.processes import RunFailedError
from shoal.verbs import dataset
from shoal.verbs.execution import Execution, Pipeline
from shoal.verbs.local_server import LocalServer
from shoal.verbs.target import Target
from shoal.verbs.workspace import LOCAL_POLL_S, Workspace

NAME = "dev"


@dataclass(frozen=True)
class Deployed:
    """The environment and the emulator that has it."""

    environment: Environment
    target: Target
    pid: int
    """Of the emulator."""

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(self.target, Names(self.environment).pipeline)

    def execute(self, parameters: Mapping[str, str] | None = None) -> Execution:
        """One execution, to its end, looked at as often as the CLI does: each look takes time from
        what runs.

        Raises RunFailedError if it did not succeed.
        """
        pipeline = self.pipeline
        arn = pipeline.start(dict(parameters or {}))
        while not (look := pipeline.look(arn)).has_ended:
            time.sleep(LOCAL_POLL_S)
        if look.status != "Succeeded":
            raise RunFailedError(
                f"execution {look.id} ended as {look.status}: {look.failure_reason}"
            )
        return look

    def step(self, name: str) -> dict[str, Any]:
        """One step of the deployed definition."""
        return next(
            step for step in _steps(self.pipeline.definition()["Steps"]) if step["Name"] == name
        )


@contextmanager
def deployed() -> Iterator[Deployed]:
    """Everything lies in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        place, workspace = Path(folder), Workspace(REPOSITORY, dict(os.environ))
        environment = load_environment(NAME, REPOSITORY)
        local_server = LocalServer(
            REPOSITORY, place / "emulator", place / "emulator.log", workspace.environ
        )
        running = local_server.start(environment.account, environment.region)
        try:
            cdk = workspace.cdk(place / "cdk.out", place, place / "tmp", lambda _event: None)
            cdk.bootstrap(running.target)
            cdk.synth(NAME)
            cdk.deploy(running.target, NAME)
            dataset.upload(
                running.target,
                REPOSITORY / dataset.FOLDER,
                Names(environment).dataset_uri,
                lambda _event: None,
            )
            yield Deployed(environment, running.target, running.pid)
        finally:
            local_server.shut_down()


def _steps(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Those inside of conditions too."""
    for step in steps:
        yield step
        arguments = step.get("Arguments", {})
        yield from _steps([*arguments.get("IfSteps", []), *arguments.get("ElseSteps", [])])
