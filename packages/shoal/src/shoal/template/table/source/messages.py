"""Requests and answers: JSON `{"instances": [[number, ...], ...]}` or CSV without a header."""

from __future__ import annotations

import csv
import io
import json  # no other package: TensorFlow's serving container may have none
from typing import Any

from table import FEATURES, answer, row_of

JSON, CSV = "application/json", "text/csv"


def rows_of(body: str, content_type: str | None) -> list[list[float]]:
    """Return the request's rows. Raise ValueError for another request."""
    kind = _media_type(content_type)
    if kind not in (JSON, CSV):
        raise ValueError(f"content type {content_type!r} is not supported; send {JSON} or {CSV}")
    try:
        lines = csv.reader(io.StringIO(body))
        rows = json.loads(body)["instances"] if kind == JSON else list(filter(None, lines))
        if rows and all(isinstance(row, list) and len(row) == len(FEATURES) for row in rows):
            return [row_of(row) for row in rows]
        reason = "these are no such rows"
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, csv.Error) as error:
        reason = str(error)
    raise ValueError(f'send rows of {", ".join(FEATURES)}, in JSON as "instances": {reason}')


def text_of(
    outputs: list[list[float]], model: dict[str, str], accept: str | None
) -> tuple[str, str]:
    """Return the answer, which in JSON names its model, and its media type, or raise ValueError."""
    predictions: list[Any] = [answer(output) for output in outputs]
    text = json.dumps({"predictions": predictions, "model": model}, allow_nan=False)
    kind = _media_type(accept) or JSON
    if kind in (JSON, "*/*", "application/*"):
        return text, JSON
    if kind == CSV:
        rows = (each.values() if isinstance(each, dict) else [each] for each in predictions)
        return "".join(f"{','.join(map(str, row))}\n" for row in rows), CSV
    raise ValueError(f"accept {accept!r} is not supported; ask for {JSON} or {CSV}")


def _media_type(header: str | None) -> str:
    return (header or "").split(";")[0].strip().lower()
