"""The endpoint's code. SageMaker's serving containers look for these four functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from model import outputs
from rows import rows_of, text_of
from saved_model import load


def model_fn(model_dir: str) -> tuple[Any, dict[str, Any]]:
    """Read the model that the archive was unpacked to."""
    return load(Path(model_dir))


def input_fn(body: bytes | bytearray | str, content_type: str) -> list[list[float]]:
    """Return the request's rows. Raise ValueError for another request."""
    return rows_of(body if isinstance(body, str) else body.decode(), content_type)


def predict_fn(rows: list[list[float]], loaded: tuple[Any, dict[str, Any]]) -> dict[str, Any]:
    """Return the outputs, and the identity of the model that gave them."""
    model, identity = loaded
    return {"outputs": outputs(model, rows), "model": identity}


def output_fn(prediction: dict[str, Any], accept: str) -> tuple[str, str]:
    """Return the answer in the format that the client accepts, and its media type."""
    return text_of(prediction["outputs"], prediction["model"], accept)
