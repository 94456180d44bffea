"""Send inference.py requests as the serving container would, and write the answers.

send_requests.py MODEL_DIR IMAGES_FILE ANSWER_FILE

A SavedModel answers as TensorFlow Serving does.
"""

import importlib
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

# the served copy first, as in the container
sys.path[:0] = [f"{sys.argv[1]}/code", str(Path(__file__).parents[2] / "scripts")]
inference, requests = map(importlib.import_module, ("inference", "digit_requests"))

JSON, NPY = requests.JSON, requests.NPY
model = tf.saved_model.load(f"{sys.argv[1]}/1").signatures["serving_default"]
digits = requests.read_digits(sys.argv[2])
as_json = json.dumps({"instances": digits.tolist()}).encode()


def serving(body: str) -> SimpleNamespace:
    """Return the answer of TensorFlow Serving's REST API to a predict request in row format."""
    instances = tf.constant(json.loads(body)["instances"], tf.uint8)
    rows = model(images=instances)["probabilities"].numpy().tolist()
    return SimpleNamespace(status_code=200, content=json.dumps({"predictions": rows}).encode())


def ask(body: bytes, content_type: str | None, accept: str | None) -> Any:
    """Return what the container would answer."""
    context = SimpleNamespace(request_content_type=content_type, accept_header=accept)
    served = serving(inference.input_handler(io.BytesIO(body), context))
    answer, kind = inference.output_handler(served, context)
    return np.load(io.BytesIO(answer)) if kind == inference.NPY else json.loads(answer)


def refused_npy(content: bytes) -> str:
    return str(requests.error_of(ask, content, NPY, JSON))


failed = SimpleNamespace(status_code=400, content=b"no such signature")
answers = requests.answers(ask, digits) | {
    "no content type": requests.error_of(ask, as_json, None, None),
    "other npy": refused_npy(requests.npy(digits.astype(np.float32))),
    "columns first": refused_npy(requests.npy(np.asfortranarray(digits))),
    "truncated npy": refused_npy(requests.npy(digits)[:-1]),
    "serving fails": requests.error_of(
        inference.output_handler, failed, SimpleNamespace(accept_header=JSON)
    ),
}
Path(sys.argv[3]).write_text(json.dumps(answers))
