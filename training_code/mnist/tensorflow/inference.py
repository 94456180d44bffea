"""The endpoint's code in front of TensorFlow Serving: requests in, probabilities and model out.

SageMaker's TensorFlow serving container looks for these two functions in code/inference.py. A
request is JSON `{"instances": [28x28 integers 0..255, ...]}` or an npy file, uint8 (N, 28, 28). The
answer is JSON or npy, float32 (N, 10). The container's Python may lack TensorFlow and NumPy, so
this uses the standard library alone.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import math
import struct
from pathlib import Path
from typing import Any

JSON = "application/json"
NPY = "application/x-npy"
SIDE = 28
CLASSES = 10
MODEL_DIR = Path(__file__).resolve().parent.parent
VERSION = "1"

_BLOCK_BYTES = 1024 * 1024
_NPY_MAGIC = b"\x93NUMPY"
_NPY_PREAMBLE_BYTES = 10


def input_handler(data: Any, context: Any) -> str:
    """Return the request for TensorFlow Serving from the client's request in `data` (a stream).

    `context` has request_content_type and accept_header. Raise ValueError that says what is wrong
    with the request.
    """
    accepted(context.accept_header)  # before the model works for nothing
    kind = _media_type(context.request_content_type)
    if kind == JSON:
        images = _from_json(data.read())
    elif kind == NPY:
        images = _from_npy(data.read())
    else:
        raise ValueError(
            f"content type {context.request_content_type!r} is not supported; send {JSON} or {NPY}"
        )
    _check(images)
    return json.dumps({"instances": images})


def output_handler(response: Any, context: Any) -> tuple[str | bytes, str]:
    """Return the client's answer and its content type from TensorFlow Serving's `response`.

    `response` is a requests.Response. Raise ValueError if the model did not answer, or if the
    client accepts neither JSON nor npy.
    """
    if response.status_code != 200:
        raise ValueError(
            f"TensorFlow Serving answered {response.status_code}:"
            f" {response.content.decode(errors='replace')}"
        )
    probabilities = json.loads(response.content)["predictions"]
    kind = accepted(context.accept_header)
    if kind == NPY:
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


def content_sha256(folder: Path) -> str:
    """Return the digest of a model: of every file in its folder, wherever it is unpacked.

    It is the sha256 of what `sha256sum` prints for the files, sorted by path. What Python compiles
    while it serves does not count; the evaluation refuses an archive that brings such files. Raise
    ValueError for another version: TensorFlow Serving serves the one with the highest number.
    """
    if other := [
        each.name for each in folder.iterdir() if each.name.isdigit() and each.name != VERSION
    ]:
        raise ValueError(
            f"{folder} holds version {min(other)} besides {VERSION}: which one serves?"
        )
    listing = hashlib.sha256()
    files = [(file.relative_to(folder), file) for file in folder.rglob("*") if file.is_file()]
    for path, file in sorted(files, key=lambda pair: pair[0].as_posix()):
        if "__pycache__" not in path.parts:
            listing.update(f"{file_sha256(file)}  {path.as_posix()}\n".encode())
    return listing.hexdigest()


def file_sha256(file: Path) -> str:
    """Return the sha256 of a file of any size."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def accepted(accept: str | None) -> str:
    """Return the format of the answer. Raise ValueError if it is neither JSON nor npy."""
    kind = _media_type(accept) or JSON
    if kind in (JSON, "*/*", "application/*"):
        return JSON
    if kind == NPY:
        return NPY
    raise ValueError(f"accept {accept!r} is not supported; ask for {JSON} or {NPY}")


def _media_type(header: str | None) -> str:
    return (header or "").split(";")[0].strip().lower()


def _from_json(body: bytes) -> Any:
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the request is not JSON: {error}") from error
    if not isinstance(request, dict) or "instances" not in request:
        raise ValueError(
            'the request has no "instances": send {"instances": [[[28 integers] x 28], ...]}'
        )
    return request["instances"]


def _check(images: Any) -> None:
    if not isinstance(images, list) or not images:
        raise ValueError(f"images must have shape (N, {SIDE}, {SIDE}) with N >= 1")
    for number, image in enumerate(images):
        if not _is_list(image, SIDE) or not all(_is_list(row, SIDE) for row in image):
            raise ValueError(
                f"images must have shape (N, {SIDE}, {SIDE}) with N >= 1; image {number} has not"
            )
        for pixel in (pixel for row in image for pixel in row):
            if type(pixel) is not int:
                raise ValueError(f"pixels must be integers, not {pixel!r}"[:200])
            if not 0 <= pixel <= 255:
                raise ValueError(f"pixels must be 0..255, not {pixel}")


def _is_list(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _from_npy(body: bytes) -> list[list[list[int]]]:
    """Return the nested lists of an npy file (format: numpy.lib.format).

    It must be of version 1 with uint8 (N, 28, 28) in C order.
    """
    header, start = _npy_header(body)
    shape = header["shape"]
    if (header["descr"], header["fortran_order"], len(shape), shape[1:]) != (
        "|u1",
        False,
        3,
        (SIDE, SIDE),
    ):
        raise ValueError(
            f"an npy request must be uint8 (N, {SIDE}, {SIDE}) in C order, not {header['descr']}"
            f" {shape}"
        )
    if len(body) - start != math.prod(shape):
        raise ValueError(
            f"the request is not an npy file: {len(body) - start} bytes for shape {shape}"
        )
    rows = [list(body[at : at + SIDE]) for at in range(start, len(body), SIDE)]
    return [rows[at : at + SIDE] for at in range(0, len(rows), SIDE)]


def _npy_header(body: bytes) -> tuple[dict[str, Any], int]:
    if body[:8] != _NPY_MAGIC + b"\x01\x00" or len(body) < _NPY_PREAMBLE_BYTES:
        raise ValueError("the request is not an npy file of version 1")
    end = _NPY_PREAMBLE_BYTES + int(struct.unpack("<H", body[8:_NPY_PREAMBLE_BYTES])[0])
    try:
        header = ast.literal_eval(body[_NPY_PREAMBLE_BYTES:end].decode("latin-1"))
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"the request is not an npy file: {error}") from error
    if (
        not isinstance(header, dict)
        or header.keys() != {"descr", "fortran_order", "shape"}
        or not isinstance(header["shape"], tuple)
    ):
        raise ValueError("the request is not an npy file: its header is not one")
    return header, end


def _to_npy(probabilities: list[list[float]]) -> bytes:
    text = (
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(probabilities)}, {CLASSES}), }}"
    )
    padding = -(_NPY_PREAMBLE_BYTES + len(text) + 1) % 64
    header = text.encode() + b" " * padding + b"\n"
    values = [value for row in probabilities for value in row]
    return (
        _NPY_MAGIC
        + b"\x01\x00"
        + struct.pack("<H", len(header))
        + header
        + struct.pack(f"<{len(values)}f", *values)
    )
