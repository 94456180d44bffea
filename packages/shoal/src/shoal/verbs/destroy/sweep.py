"""Calls an environment's sweeper, the function in
packages/shoal/src/shoal/functions/teardown/sweep.py."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields

from shoal.aws.target import Target
from shoal.errors import AnswerError, NotFoundError

_PATIENCE_S = 330.0
"""The function's own limit is five minutes."""


@dataclass(frozen=True)
class Swept:
    """What is read of the function's report, as its own class `Report` describes it."""

    dry_run: bool
    endpoints: int
    endpoints_past_ttl: int
    kept: list[str]
    past_ttl: list[str]
    deleted: list[str]
    pending: list[str]
    complete: bool = True
    unread: list[str] = field(default_factory=list)
    """Like `complete`, missing from the report of a sweeper that was deployed earlier."""


def sweep(target: Target, function: str, *, dry_run: bool) -> Swept:
    """Run the sweeper now.

    Raises NotFoundError when it is not deployed, and AnswerError when it failed.
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
        raise AnswerError(
            f"{function} failed: {payload.get('errorType')}: {payload.get('errorMessage')}"
        )
    return Swept(
        **{each.name: payload[each.name] for each in fields(Swept) if each.name in payload}
    )
