"""The endpoint's code in front of TensorFlow Serving: requests in, probabilities and model out.

SageMaker's TensorFlow serving container looks for these two functions in code/inference.py, and has
code/ on Python's path (`_setup_gunicorn` of its serve.py; read). A request is JSON
`{"instances": [28x28 integers 0..255, ...]}` or an npy file, uint8 (N, 28, 28). The answer is JSON
or npy, float32 (N, 10). The container's Python has neither TensorFlow nor NumPy (its Dockerfile;
read), so this uses the standard library alone.
"""

from __future__ import annotations

import functools
import json
import re
import struct
from pathlib import Path
from typing import Any

from common.archive import content_sha256

JSON = "application/json"
NPY = "application/x-npy"
SIDE = 28
MODEL_DIR = Path(__file__).resolve().parent.parent

# As numpy.save writes them (format: numpy.lib.format, version 1).
_NPY_IMAGES = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '\|u1', 'fortran_order': False, 'shape': "
    rb"\((\d{1,9}), 28, 28\), \} *\n",
    re.DOTALL,
)
_NPY_ANSWER = "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, 10), }}"


def input_handler(data: Any, context: Any) -> str:
    """Return the request for TensorFlow Serving from the client's request in `data` (a stream).

    `context` has request_content_type and accept_header. Raise ValueError that says what is wrong
    with the request.
    """
    accepted(context.accept_header)  # before the model works for nothing
    kind = _media_type(context.request_content_type)
    if kind not in (JSON, NPY):
        raise ValueError(
            f"content type {context.request_content_type!r} is not supported; send {JSON} or {NPY}"
        )
    images = _from_json(data.read()) if kind == JSON else _from_npy(data.read())
    return json.dumps({"instances": images})


def output_handler(response: Any, context: Any) -> tuple[str | bytes, str]:
    """Return the client's answer and its content type from TensorFlow Serving's `response`.

    `response` is a requests.Response. Raise ValueError if the model did not answer, or if the
    client accepts neither JSON nor npy.
    """
    if response.status_code != 200:
        text = response.content.decode(errors="replace")
        raise ValueError(f"TensorFlow Serving answered {response.status_code}: {text}")
    probabilities = json.loads(response.content)["predictions"]
    if accepted(context.accept_header) == NPY:
        return _to_npy(probabilities), NPY
    predictions = [{"digit": row.index(max(row)), "probabilities": row} for row in probabilities]
    return json.dumps({"predictions": predictions, "model": identity()}), JSON


@functools.cache
def identity() -> dict[str, Any]:
    """Return the job that trained the model in this folder, and the digest of its content."""
    metadata = json.loads((MODEL_DIR / "model.json").read_text())
    return {
        "training_job_name": metadata.get("training_job_name"),
        "content_sha256": content_sha256(MODEL_DIR),
    }


def accepted(accept: str | None) -> str:
    """Return the format of the answer. Raise ValueError if it is neither JSON nor npy."""
    kind = _media_type(accept)
    if kind not in ("", "*/*", "application/*", JSON, NPY):
        raise ValueError(f"accept {accept!r} is not supported; ask for {JSON} or {NPY}")
    return NPY if kind == NPY else JSON


def _media_type(header: str | None) -> str:
    return (header or "").split(";")[0].strip().lower()


def _from_json(body: bytes) -> list[Any]:
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the request is not JSON: {error}") from error
    if not isinstance(request, dict) or "instances" not in request:
        raise ValueError(
            'the request has no "instances": send {"instances": [[[28 integers] x 28], ...]}'
        )
    images = request["instances"]
    if not isinstance(images, list) or not images:
        raise ValueError(f"images must have shape (N, {SIDE}, {SIDE}) with N >= 1")
    for number, image in enumerate(images):
        if not _is_list(image) or not all(_is_list(row) for row in image):
            raise ValueError(
                f"images must have shape (N, {SIDE}, {SIDE}) with N >= 1; image {number} has not"
            )
        for pixel in (pixel for row in image for pixel in row):
            if type(pixel) is not int:
                raise ValueError(f"pixels must be integers, not {pixel!r}"[:200])
            if not 0 <= pixel <= 255:
                raise ValueError(f"pixels must be 0..255, not {pixel}")
    return images


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) == SIDE


def _from_npy(body: bytes) -> list[list[list[int]]]:
    header = _NPY_IMAGES.match(body)
    if header is None:
        raise ValueError(
            f"the request is not an npy file of version 1 with uint8 (N, {SIDE}, {SIDE}) in C order"
        )
    count, start = int(header[1]), header.end()
    if not count or len(body) - start != count * SIDE * SIDE:
        raise ValueError(
            f"the request is not an npy file: {len(body) - start} bytes for {count} images"
        )
    rows = [list(body[at : at + SIDE]) for at in range(start, len(body), SIDE)]
    return [rows[at : at + SIDE] for at in range(0, len(rows), SIDE)]


def _to_npy(probabilities: list[list[float]]) -> bytes:
    header = _NPY_ANSWER.format(len(probabilities)).encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    values = [value for row in probabilities for value in row]
    return (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(header))
        + header
        + struct.pack(f"<{len(values)}f", *values)
    )
