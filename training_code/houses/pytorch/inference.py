"""The endpoint's code: rows of measurements become progressions of the disease.

SageMaker's PyTorch serving container looks for these four functions. A request is JSON
`{"instances": [[age, sex, bmi, ...], ...]}` or CSV without a header. The answer is JSON, which says
which model gave it, or CSV with one number a line.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import torch
from model import FEATURES, SavedModel, load

JSON, CSV = "application/json", "text/csv"


def model_fn(model_dir: str) -> SavedModel:
    """Read the model that the archive was unpacked to."""
    return load(Path(model_dir))


def input_fn(body: bytes | bytearray | str, content_type: str) -> torch.Tensor:
    """Return the request's features float32 (N, 10). Raise ValueError for another request."""
    text = body if isinstance(body, str) else body.decode()
    kind = _media_type(content_type)
    if kind == JSON:
        rows = json.loads(text)["instances"]
    elif kind == CSV:
        rows = [[float(cell) for cell in row] for row in csv.reader(io.StringIO(text)) if row]
    else:
        raise ValueError(f"content type {content_type!r} is not supported; send {JSON} or {CSV}")
    features = torch.tensor(rows, dtype=torch.float32)
    if features.ndim != 2 or features.shape[1] != len(FEATURES) or not len(features):
        raise ValueError(f"rows must have the numbers {', '.join(FEATURES)}")
    return features


def predict_fn(features: torch.Tensor, model: SavedModel) -> dict[str, Any]:
    """Return the predictions, and the identity of the model that gave them."""
    identity = {
        "training_job_name": model.training_job_name,
        "content_sha256": model.content_sha256,
    }
    return {"predictions": model.predict(features).tolist(), "model": identity}


def output_fn(prediction: dict[str, Any], accept: str) -> str:
    """Return the answer in the format that the client accepts."""
    kind = _media_type(accept) or JSON
    if kind in (JSON, "*/*", "application/*"):
        return json.dumps(prediction)
    if kind == CSV:
        return "".join(f"{number:.4f}\n" for number in prediction["predictions"])
    raise ValueError(f"accept {accept!r} is not supported; ask for {JSON} or {CSV}")


def _media_type(header: str | None) -> str:
    return (header or "").split(";")[0].strip().lower()
