"""The endpoint's code in front of TensorFlow Serving: requests in, probabilities and model out.

SageMaker's serving container looks for the two handlers in code/inference.py, and its Python has
neither TensorFlow nor NumPy (its serve.py and Dockerfile; read). A request is JSON `{"instances":
[28x28 integers 0..255, ...]}` or an npy file, uint8 (N, 28, 28); the answer JSON or npy, float32
(N, 10).
"""

from __future__ import annotations

import array
import functools
import itertools
import json
import re
from pathlib import Path
from typing import Any

from common.archive import identity_of
from common.served import JSON, NPY, answer_type, body_type, json_of

KINDS = (JSON, NPY)
SIDE = 28
SHAPE = f"images must have shape (N, {SIDE}, {SIDE}) with N >= 1"
# As numpy.save writes them (format: numpy.lib.format, version 1).
NPY_IMAGES = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '\|u1', 'fortran_order': False, 'shape': "
    rb"\((\d{1,9}), 28, 28\), \} *\n",
    re.DOTALL,
)
NPY_ANSWER = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 10), }"


def input_handler(data: Any, context: Any) -> str:
    """Return TensorFlow Serving's request for the client's. Raise ValueError with what is wrong."""
    answer_type(context.accept_header, KINDS)  # before the model works for nothing
    kind = body_type(context.request_content_type, KINDS)
    images = _from_json(data.read()) if kind == JSON else _from_npy(data.read())
    return json.dumps({"instances": images})


def output_handler(response: Any, context: Any) -> tuple[str | bytes, str]:
    """Return the client's answer and its type. Raise ValueError if TensorFlow Serving has none."""
    if response.status_code != 200:
        text = response.content.decode(errors="replace")
        raise ValueError(f"TensorFlow Serving answered {response.status_code}: {text}")
    rows = json.loads(response.content)["predictions"]
    if answer_type(context.accept_header, KINDS) == NPY:
        header = (NPY_ANSWER % len(rows)).ljust(117) + "\n"  # to 128 bytes, a multiple of 64
        values = array.array("f", itertools.chain.from_iterable(rows))
        return b"\x93NUMPY\x01\x00\x76\x00" + header.encode() + values.tobytes(), NPY
    predictions = [{"digit": row.index(max(row)), "probabilities": row} for row in rows]
    return json.dumps({"predictions": predictions, "model": _identity()}), JSON


@functools.cache
def _identity() -> dict[str, Any]:
    """Return the job that trained the model in this folder, and the digest of its content."""
    return identity_of(Path(__file__).resolve().parent.parent)


def _from_json(body: bytes) -> list[Any]:
    request = json_of(body)
    if not isinstance(request, dict) or "instances" not in request:
        raise ValueError(
            'the request has no "instances": send {"instances": [[[28 integers] x 28], ...]}'
        )
    images = request["instances"]
    if not isinstance(images, list) or not images:
        raise ValueError(SHAPE)
    for number, image in enumerate(images):
        lists = [image, *image] if isinstance(image, list) else [image]
        if any(not isinstance(each, list) or len(each) != SIDE for each in lists):
            raise ValueError(f"{SHAPE}; image {number} has not")
        for pixel in itertools.chain.from_iterable(image):
            if type(pixel) is not int:
                raise ValueError(f"pixels must be integers, not {pixel!r}"[:200])
            if not 0 <= pixel <= 255:
                raise ValueError(f"pixels must be 0..255, not {pixel}")
    return images


def _from_npy(body: bytes) -> list[Any]:
    header = NPY_IMAGES.match(body)
    if header is None:
        raise ValueError(
            f"the request is not an npy file of version 1 with uint8 (N, {SIDE}, {SIDE}) in C order"
        )
    count, pixels = int(header[1]), memoryview(body)[header.end() :]
    if not count or len(pixels) != count * SIDE * SIDE:
        raise ValueError(f"the request is not an npy file: {len(pixels)} bytes for {count} images")
    return pixels.cast("B", (count, SIDE, SIDE)).tolist()
