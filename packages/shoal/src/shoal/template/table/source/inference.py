"""The endpoint's code. SageMaker's serving containers look for these four functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rows import rows_of, text_of
from saved_model import SavedModel, load


def model_fn(model_dir: str) -> SavedModel:
    """Read the model that the archive was unpacked to."""
    return load(Path(model_dir))


def input_fn(body: bytes | bytearray | str, content_type: str) -> list[list[float]]:
    """Return the request's rows. Raise ValueError for another request."""
    return rows_of(body if isinstance(body, str) else body.decode(), content_type)


def predict_fn(rows: list[list[float]], model: SavedModel) -> dict[str, Any]:
    """Return the outputs, and the identity of the model that gave them."""
    return {"outputs": model.predict(rows), "model": model.identity}


def output_fn(prediction: dict[str, Any], accept: str) -> tuple[str, str]:
    """Return the answer in the format that the client accepts, and its media type."""
    return text_of(prediction["outputs"], prediction["model"], accept)
