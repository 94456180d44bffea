"""Runs a function's handler in a process of its own, as Lambda does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal_local.testing import root_variables

FUNCTIONS = Path(__file__).resolve().parents[2] / "stacks" / "functions"

# What Lambda's own bootstrap does: import the handler from the folder, call it with the event and a
# context, report a raised error.
_BOOTSTRAP = """
import json, sys
sys.path.insert(0, sys.argv[1])
from importlib import import_module
handler = import_module(sys.argv[3]).handler

class Context:
    aws_request_id = "00000000-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self):
        return int(sys.argv[2])

outcome = {}
try:
    outcome["result"] = handler(json.load(sys.stdin), Context())
except Exception as error:
    outcome["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(outcome))
"""


@dataclass(frozen=True)
class Outcome:
    """`error` is `Type: message` of what the handler raised, or empty."""

    result: Any
    error: str
    log: str


def invoke(
    folder: str,
    event: Mapping[str, Any],
    *,
    endpoint_url: str,
    remaining_ms: int = 60_000,
    environment: Mapping[str, str] | None = None,
    module: str = "handler",
) -> Outcome:
    """Call the handler of `stacks/functions/<folder>/<module>.py` as Lambda would."""
    process = subprocess.run(
        [sys.executable, "-c", _BOOTSTRAP, str(FUNCTIONS / folder), str(remaining_ms), module],
        input=json.dumps(event),
        env=_environment(endpoint_url) | root_variables(endpoint_url) | dict(environment or {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    outcome = json.loads(process.stdout)
    return Outcome(outcome.get("result"), outcome.get("error", ""), process.stderr)


def _environment(endpoint_url: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": "111122223333",
        "AWS_SECRET_ACCESS_KEY": "for-this-test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
