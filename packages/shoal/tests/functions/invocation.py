"""Run a function's handler in a process of its own, as Lambda does."""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal_local.testing import root_variables
from tests.functions.bootstrap import run

FUNCTIONS = (
    Path(__file__).resolve().parents[4] / "packages" / "shoal" / "src" / "shoal" / "functions"
)

DEADLINE_S = 60.0
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.functions.bootstrap"])


@dataclass(frozen=True)
class Outcome:
    """`error` is `Type: message` of what the handler raised, or empty."""

    result: Any
    error: str
    log: str


def invoke(
    folder: str | Path,
    event: Mapping[str, Any],
    *,
    endpoint_url: str,
    remaining_ms: int = 60_000,
    environment: Mapping[str, str] | None = None,
    module: str = "handler",
) -> Outcome:
    """Call the handler of `packages/shoal/src/shoal/functions/<folder>/<module>.py` as Lambda
    would; a `folder` that is a whole path stands for itself.
    """
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary)
        variables = (
            _environment(endpoint_url) | root_variables(endpoint_url) | dict(environment or {})
        )
        # Lambda hands over JSON, so what is no JSON fails here as well.
        message = json.loads(json.dumps(event))
        process = _FORKS.Process(
            target=run, args=(FUNCTIONS / folder, module, message, remaining_ms, variables, output)
        )
        process.start()
        process.join(DEADLINE_S)
        if process.exitcode is None:
            process.kill()
            process.join()
        log = (output / "log").read_text()
        assert process.exitcode == 0, log
        outcome = json.loads((output / "outcome.json").read_text())
    return Outcome(outcome.get("result"), outcome.get("error", ""), log)


def _environment(endpoint_url: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": "111122223333",
        "AWS_SECRET_ACCESS_KEY": "for-this-test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
