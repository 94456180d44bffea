"""The environment dev, deployed to a shoal-local of the bench's own, with MNIST in its bucket."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.bench.machine import REPOSITORY
from dev.bench.processes import RunFailedError
from shoal.aws.execution import Execution, Pipeline
from shoal.aws.target import Target
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.settings import Environment
from shoal.verbs import dataset
from shoal.verbs.local_server import LocalServer
from shoal.verbs.workspace import LOCAL_POLL_S, Workspace

NAME = "dev"


@dataclass(frozen=True)
class Deployment:
    """The deployed environment and its server."""

    environment: Environment
    target: Target
    pid: int
    """Process id of shoal-local."""

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(self.target, Names(self.environment).pipeline)

    def execute(self, parameters: Mapping[str, str] | None = None) -> Execution:
        """Run one execution to its end; raise RunFailedError unless it succeeds.

        It polls as often as the CLI does, because each poll takes time from what runs.
        """
        pipeline = self.pipeline
        arn = pipeline.start(dict(parameters or {}))
        while not (execution := pipeline.look(arn)).has_ended:
            time.sleep(LOCAL_POLL_S)
        if execution.status != "Succeeded":
            raise RunFailedError(
                f"execution {execution.id} ended as {execution.status}: {execution.failure_reason}"
            )
        return execution

    def step(self, name: str) -> dict[str, Any]:
        """Return one step of the deployed definition."""
        return next(
            step for step in _steps(self.pipeline.definition()["Steps"]) if step["Name"] == name
        )


@contextmanager
def deploy_dev() -> Iterator[Deployment]:
    """Deploy dev in a temporary folder, and remove everything at the end."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        root, workspace = Path(folder), Workspace(REPOSITORY, dict(os.environ))
        environment = load_environment(NAME, REPOSITORY)
        local_server = LocalServer(
            REPOSITORY, root / "emulator", root / "emulator.log", workspace.environ
        )
        running = local_server.start(environment.account, environment.region)
        try:
            cdk = workspace.cdk(root / "cdk.out", root, root / "tmp", lambda _event: None)
            cdk.bootstrap(running.target)
            cdk.synth(NAME)
            cdk.deploy(running.target, NAME)
            dataset.upload_workload(running.target, environment, REPOSITORY, lambda _event: None)
            yield Deployment(environment, running.target, running.pid)
        finally:
            local_server.shut_down()


def _steps(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield all steps, including those inside conditions."""
    for step in steps:
        yield step
        arguments = step.get("Arguments", {})
        yield from _steps([*arguments.get("IfSteps", []), *arguments.get("ElseSteps", [])])
