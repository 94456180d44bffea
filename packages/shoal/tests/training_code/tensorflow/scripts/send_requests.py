"""Send inference.py requests as the serving container would, and write the answers.

    requests.py MODEL_DIR IMAGES_FILE ANSWER_FILE

A SavedModel answers as TensorFlow Serving does.
"""

import importlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

sys.path.insert(0, f"{sys.argv[1]}/code")  # the served copy, as in the container
inference = importlib.import_module("inference")

digits = np.frombuffer(Path(sys.argv[2]).read_bytes(), dtype=np.uint8, offset=16).reshape(
    -1, 28, 28
)[:10]
model = tf.saved_model.load(f"{sys.argv[1]}/1").signatures["serving_default"]


def serving(body: str) -> SimpleNamespace:
    """Return the answer of TensorFlow Serving's REST API to a predict request in row format."""
    instances = tf.constant(json.loads(body)["instances"], tf.uint8)
    rows = model(images=instances)["probabilities"].numpy().tolist()
    return SimpleNamespace(status_code=200, content=json.dumps({"predictions": rows}).encode())


def npy(array: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def ask(body: bytes, content_type: str | None, accept: str | None) -> Any:
    context = SimpleNamespace(request_content_type=content_type, accept_header=accept)
    answer, kind = inference.output_handler(
        serving(inference.input_handler(io.BytesIO(body), context)), context
    )
    return np.load(io.BytesIO(answer)) if kind == inference.NPY else json.loads(answer)


def error_of(attempt: Callable[[], Any]) -> str:
    try:
        attempt()
    except ValueError as error:
        return str(error)
    return "no error"


def refused(instances: Any) -> str:
    return error_of(
        lambda: ask(
            json.dumps({"instances": instances}).encode(), "application/json", "application/json"
        )
    )


def failing() -> Any:
    context = SimpleNamespace(accept_header="application/json")
    return inference.output_handler(
        SimpleNamespace(status_code=400, content=b"no such signature"), context
    )


as_json = json.dumps({"instances": digits.tolist()}).encode()
from_json = ask(as_json, "application/json; charset=utf-8", "*/*")
from_npy = ask(npy(digits), "application/x-npy", "application/x-npy")
answers = {
    "json": from_json,
    "npy": {"dtype": str(from_npy.dtype), "shape": from_npy.shape},
    "same": bool(
        np.allclose(from_npy, [item["probabilities"] for item in from_json["predictions"]])
    ),
    "content type": error_of(lambda: ask(as_json, "text/csv", "application/json")),
    "no content type": error_of(lambda: ask(as_json, None, None)),
    "accept": error_of(lambda: ask(as_json, "application/json", "image/png")),
    "not json": error_of(lambda: ask(b"{", "application/json", "application/json")),
    "no instances": error_of(lambda: ask(b"[]", "application/json", "application/json")),
    "not npy": error_of(lambda: ask(b"PK", "application/x-npy", "application/json")),
    "other npy": error_of(
        lambda: ask(npy(digits.astype(np.float32)), "application/x-npy", "application/json")
    ),
    "columns first": error_of(
        lambda: ask(npy(np.asfortranarray(digits)), "application/x-npy", "application/json")
    ),
    "truncated npy": error_of(
        lambda: ask(npy(digits)[:-1], "application/x-npy", "application/json")
    ),
    "pickle": error_of(
        lambda: ask(
            npy(np.array([{}], dtype=object), allow_pickle=True),
            "application/x-npy",
            "application/json",
        )
    ),
    "one image": refused(digits[0].tolist()),
    "none": refused([]),
    "ragged": refused([[*digits[0].tolist()[:27], [0] * 5]]),
    "fractions": refused((digits[:1] / 255).tolist()),
    "text": refused([[["a"] * 28] * 28]),
    "range": refused((digits[:1].astype(int) + 300).tolist()),
    "serving fails": error_of(failing),
}
Path(sys.argv[3]).write_text(json.dumps(answers))
