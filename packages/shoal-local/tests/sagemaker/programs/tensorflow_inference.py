"""CSV in, JSON out: what stands before and after TensorFlow Serving; the text `boom` raises."""

from __future__ import annotations

import json
from typing import Any


def input_handler(data: Any, context: Any) -> str:
    text = data.read().decode()
    if text == "boom":
        raise ValueError("this handler fails on purpose")
    if context.request_content_type != "text/csv":
        return str(text)
    return json.dumps(
        {"instances": [[float(value) for value in line.split(",")] for line in text.splitlines()]}
    )


def output_handler(response: Any, context: Any) -> tuple[str, str]:
    if response.status_code != 200:
        raise ValueError(response.content.decode())
    return json.dumps(
        {"y": response.json()["predictions"], "from": context.request_content_type}
    ), context.accept_header
