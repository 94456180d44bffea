"""The endpoint's code: a request's images become the digits' probabilities, with the model's name.

SageMaker's PyTorch serving container looks for these four functions. A request is JSON
`{"instances": [28x28 integers 0..255, ...]}` or an npy file, uint8 (N, 28, 28). The answer is JSON
or npy, float32 (N, 10).
"""

import io
import json
import tokenize
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.served import JSON, NPY, UNREADABLE, answer_type, body_type, json_of
from model import SavedModel, load

KINDS = (JSON, NPY)
SIDE = 28
Prediction = tuple[np.ndarray[Any, Any], dict[str, Any]]
"""Probabilities float32 (N, 10), and the identity of the model that gave them."""


def model_fn(model_dir: str) -> SavedModel:
    """Read the model that the archive was unpacked to. Raise ValueError for another one."""
    return load(Path(model_dir), torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def input_fn(body: bytes | bytearray | str, content_type: str) -> torch.Tensor:
    """Return the request's images, uint8 (N, 28, 28). Raise ValueError with what is wrong."""
    kind = body_type(content_type, KINDS)
    array = _from_json(body) if kind == JSON else _from_npy(body)
    if array.ndim != 3 or array.shape[1:] != (SIDE, SIDE) or not len(array):
        raise ValueError(
            f"images must have shape (N, {SIDE}, {SIDE}) with N >= 1, not {array.shape}"
        )
    if array.dtype.kind not in "iu":
        raise ValueError(f"pixels must be integers, not {array.dtype}")
    if array.min() < 0 or array.max() > 255:
        raise ValueError(f"pixels must be 0..255, not {array.min()}..{array.max()}")
    return torch.from_numpy(array.astype(np.uint8))


def predict_fn(images: torch.Tensor, model: SavedModel) -> Prediction:
    """Classify the images."""
    return model.predict(images).numpy(), model.identity


def output_fn(prediction: Prediction, accept: str) -> str | bytes:
    """Return the answer as JSON or npy. Raise ValueError if the client accepts neither."""
    rows, model = prediction
    if answer_type(accept, KINDS) == NPY:
        buffer = io.BytesIO()
        np.save(buffer, rows, allow_pickle=False)
        return buffer.getvalue()
    answers = [{"digit": int(row.argmax()), "probabilities": row.tolist()} for row in rows]
    return json.dumps({"predictions": answers, "model": model})


def _from_json(body: bytes | bytearray | str) -> np.ndarray[Any, Any]:
    request = json_of(body)
    if not isinstance(request, dict) or "instances" not in request:
        raise ValueError(
            'the request has no "instances": send {"instances": [[[28 integers] x 28], ...]}'
        )
    try:
        return np.asarray(request["instances"])
    except ValueError as error:
        raise ValueError(f"the rows of an image have different lengths: {error}") from error


def _from_npy(body: bytes | bytearray | str) -> np.ndarray[Any, Any]:
    file = io.BytesIO(body.encode("latin-1") if isinstance(body, str) else body)
    try:
        return np.lib.format.read_array(file, allow_pickle=False)  # type: ignore[no-any-return, unused-ignore]
    # a header may claim terabytes, and be any text
    except (*UNREADABLE, ArithmeticError, MemoryError, tokenize.TokenError) as error:
        raise ValueError(f"the request is not an npy file: {error}") from error
