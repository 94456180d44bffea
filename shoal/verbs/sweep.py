"""Calls an environment's sweeper: which function goes in, what it found and deleted comes out."""

from __future__ import annotations

import json
from dataclasses import dataclass

from shoal.verbs.errors import ExecutionError, NotFoundError
from shoal.verbs.target import Target

_PATIENCE_S = 330.0
"""The function's own limit is five minutes."""


@dataclass(frozen=True)
class Swept:
    """The function's report; see stacks/functions/teardown/sweep.py."""

    dry_run: bool
    endpoints: int
    endpoints_past_ttl: int
    kept: list[str]
    past_ttl: list[str]
    deleted: list[str]
    pending: list[str]
    complete: bool = True
    """Not said by a sweeper of an earlier deployment."""


def sweep(target: Target, function: str, *, dry_run: bool) -> Swept:
    """Run the sweeper now.

    Raises NotFoundError when it is not deployed, ExecutionError when it failed.
    """
    client = target.client("lambda", patience_s=_PATIENCE_S)
    try:
        answer = client.invoke(FunctionName=function, Payload=json.dumps({"dry_run": dry_run}))
    except client.exceptions.ResourceNotFoundException:
        raise NotFoundError(
            f"there is no function {function} in {target.description}; deploy the environment first"
        ) from None
    payload = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise ExecutionError(
            f"{function} failed: {payload.get('errorType')}: {payload.get('errorMessage')}"
        )
    return Swept(**payload)
