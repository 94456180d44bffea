"""Calls a custom resource's function as CloudFormation does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.functions.invocation import invoke
from tests.functions.loopback import Request, serving


def answer_of(folder: str | Path, event: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return what CloudFormation got at the response URL; `options` are those of `invoke`."""
    answers: list[Request] = []

    def take(request: Request) -> tuple[int, bytes]:
        answers.append(request)
        return 200, b""

    with serving(take) as response_url:
        request = {"ResponseURL": f"{response_url}/?signature=x%2By", "RequestId": "request-1"}
        invoke(folder, event | request, **options)
    (answer,) = answers
    assert (answer.method, answer.path) == ("PUT", "/?signature=x%2By")
    return dict(json.loads(answer.body))
