"""Requests of images of digits: those that every endpoint answers, and those that it refuses."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

JSON, NPY = "application/json", "application/x-npy"


def read_digits(file: str) -> Any:
    """Return the first ten images of an idx file."""
    pixels = np.frombuffer(Path(file).read_bytes(), dtype=np.uint8, offset=16)
    return pixels.reshape(-1, 28, 28)[:10]


def npy(array: Any) -> bytes:
    """Return the file that numpy saves."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def error_of(attempt: Callable[..., Any], *arguments: Any) -> str:
    """Return why a request is refused."""
    try:
        attempt(*arguments)
    except ValueError as error:
        return str(error)
    return "no error"


def answers(ask: Callable[[bytes, str, str], Any], digits: Any) -> dict[str, Any]:
    """Return what `ask` says to each body, content type and accepted type."""

    def refused(instances: Any) -> str:
        return error_of(ask, json.dumps({"instances": instances}).encode(), JSON, JSON)

    texts = (b"{'descr': (", b"{1: 2, 'a': 3}")
    headers = [b"\x93NUMPY\x01\x00" + bytes([len(each), 0]) + each for each in texts]
    image, as_json = digits[0].tolist(), json.dumps({"instances": digits.tolist()}).encode()
    from_json = ask(as_json, f"{JSON}; charset=utf-8", "*/*")
    from_npy = ask(npy(digits), NPY, NPY)
    rows = [item["probabilities"] for item in from_json["predictions"]]
    return {
        "json": from_json,
        "npy": {"dtype": str(from_npy.dtype), "shape": from_npy.shape},
        "same": bool(np.allclose(from_npy, rows)),
        "content type": error_of(ask, as_json, "text/csv", JSON),
        "accept": error_of(ask, as_json, JSON, "image/png"),
        "not json": error_of(ask, b"{", JSON, JSON),
        "no instances": error_of(ask, b"[]", JSON, JSON),
        "not npy": error_of(ask, b"PK", NPY, JSON),
        **{f"npy header {n}": error_of(ask, each, NPY, JSON) for n, each in enumerate(headers)},
        "pickle": error_of(ask, npy(np.array([{}], dtype=object)), NPY, JSON),
        "one image": refused(image),
        "none": refused([]),
        "ragged": refused([[*image[:27], [0] * 5]]),
        "fractions": refused((digits[:1] / 255).tolist()),
        "text": refused([[["a"] * 28] * 28]),
        "range": refused((digits[:1].astype(int) + 300).tolist()),
    }
