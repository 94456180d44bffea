"""Reads what requests to every endpoint have: media types, and JSON.

Each function raises ValueError with what is wrong, which the containers answer with.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

JSON, NPY = "application/json", "application/x-npy"


def content_type(header: str | None, allowed: Sequence[str]) -> str:
    """Return the media type of the request's body."""
    kind = _media_type(header)
    if kind not in allowed:
        choices = " or ".join(allowed)
        raise ValueError(f"content type {header!r} is not supported; send {choices}")
    return kind


def accepted(header: str | None, allowed: Sequence[str]) -> str:
    """Return the media type of the answer: the first one, where the client takes any."""
    kind = _media_type(header)
    if kind in ("", "*/*", "application/*"):
        return allowed[0]
    if kind not in allowed:
        choices = " or ".join(allowed)
        raise ValueError(f"accept {header!r} is not supported; ask for {choices}")
    return kind


def from_json(body: bytes | bytearray | str) -> Any:
    """Return what the body says."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the request is not JSON: {error}") from error


def _media_type(header: str | None) -> str:
    return (header or "").split(";")[0].strip().lower()
