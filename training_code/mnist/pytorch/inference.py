"""The endpoint's code: a request's images become the digits' probabilities, with the model's name.

SageMaker's PyTorch serving container looks for these four functions. A request is JSON
`{"instances": [28x28 integers 0..255, ...]}` or an npy file, uint8 (N, 28, 28). The answer is JSON
or npy, float32 (N, 10).
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model import SavedModel, load, predict

JSON = "application/json"
NPY = "application/x-npy"
SIDE = 28


@dataclass(frozen=True)
class Prediction:
    """Probabilities float32 (N, 10), and the identity of the model that gave them."""

    probabilities: np.ndarray[Any, np.dtype[np.float32]]
    model: dict[str, Any]


def model_fn(model_dir: str) -> SavedModel:
    """Read the model that the archive was unpacked to.

    Raise ValueError if it is not one of ours.
    """
    return load(Path(model_dir), torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def input_fn(body: bytes | bytearray | str, content_type: str) -> torch.Tensor:
    """Return the request's images as uint8 (N, 28, 28).

    Raise ValueError that says what is wrong with the request.
    """
    kind = _media_type(content_type)
    if kind == JSON:
        return _checked(_from_json(body))
    if kind == NPY:
        return _checked(_from_npy(body))
    raise ValueError(f"content type {content_type!r} is not supported; send {JSON} or {NPY}")


def predict_fn(images: torch.Tensor, model: SavedModel) -> Prediction:
    """Classify the images."""
    device = next(model.network.parameters()).device
    probabilities = predict(model.network, images.to(device)).cpu().numpy()
    identity = {
        "training_job_name": model.metadata.get("training_job_name"),
        "content_sha256": model.content_sha256,
    }
    return Prediction(probabilities, identity)


def output_fn(prediction: Prediction, accept: str) -> str | bytes:
    """Return the answer in the format that the client accepts.

    Raise ValueError if that is neither JSON nor npy.
    """
    kind = _media_type(accept) or JSON
    if kind in (JSON, "*/*", "application/*"):
        return _to_json(prediction)
    if kind == NPY:
        buffer = io.BytesIO()
        np.save(buffer, prediction.probabilities, allow_pickle=False)
        return buffer.getvalue()
    raise ValueError(f"accept {accept!r} is not supported; ask for {JSON} or {NPY}")


def _media_type(header: str | None) -> str:
    return (header or "").split(";")[0].strip().lower()


def _from_json(body: bytes | bytearray | str) -> np.ndarray[Any, Any]:
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the request is not JSON: {error}") from error
    if not isinstance(request, dict) or "instances" not in request:
        raise ValueError(
            'the request has no "instances": send {"instances": [[[28 integers] x 28], ...]}'
        )
    try:
        return np.asarray(request["instances"])
    except ValueError as error:
        raise ValueError(f"the rows of an image have different lengths: {error}") from error


def _from_npy(body: bytes | bytearray | str) -> np.ndarray[Any, Any]:
    try:
        array = np.lib.format.read_array(
            io.BytesIO(body.encode("latin-1") if isinstance(body, str) else body),
            allow_pickle=False,
        )
    except (
        ValueError,
        EOFError,
        OSError,
        MemoryError,
    ) as error:  # the last: its header may say that it has terabytes
        raise ValueError(f"the request is not an npy file: {error}") from error
    return array


def _checked(array: np.ndarray[Any, Any]) -> torch.Tensor:
    if array.ndim != 3 or array.shape[1:] != (SIDE, SIDE) or not len(array):
        raise ValueError(
            f"images must have shape (N, {SIDE}, {SIDE}) with N >= 1, not {array.shape}"
        )
    if array.dtype.kind not in "iu":
        raise ValueError(f"pixels must be integers, not {array.dtype}")
    if array.min() < 0 or array.max() > 255:
        raise ValueError(f"pixels must be 0..255, not {array.min()}..{array.max()}")
    return torch.from_numpy(array.astype(np.uint8))


def _to_json(prediction: Prediction) -> str:
    predictions = [
        {"digit": int(row.argmax()), "probabilities": [float(value) for value in row]}
        for row in prediction.probabilities
    ]
    return json.dumps({"predictions": predictions, "model": prediction.model})
