"""Send inference.py requests as the serving container would.

Writes the answers, or the errors, to the last path of its arguments.
"""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, f"{sys.argv[1]}/code")  # the served copies, as in the container
import inference

digits = np.frombuffer(Path(sys.argv[2]).read_bytes(), dtype=np.uint8, offset=16).reshape(
    -1, 28, 28
)[:10]
model = inference.model_fn(sys.argv[1])


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def ask(body: bytes, content_type: str, accept: str) -> Any:
    answer = inference.output_fn(
        inference.predict_fn(inference.input_fn(body, content_type), model), accept
    )
    return json.loads(answer) if isinstance(answer, str) else np.load(io.BytesIO(answer))


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


as_json = json.dumps({"instances": digits.tolist()}).encode()
from_json = ask(as_json, "application/json; charset=utf-8", "*/*")
from_npy = ask(npy(digits), "application/x-npy", "application/x-npy")
image = digits[0].tolist()
answers = {
    "json": from_json,
    "npy": {
        "dtype": str(from_npy.dtype),
        "shape": from_npy.shape,
        "digits": from_npy.argmax(1).tolist(),
    },
    "same": bool(
        np.allclose(from_npy, [item["probabilities"] for item in from_json["predictions"]])
    ),
    "content type": error_of(lambda: ask(as_json, "text/csv", "application/json")),
    "accept": error_of(lambda: ask(as_json, "application/json", "image/png")),
    "not json": error_of(lambda: ask(b"{", "application/json", "application/json")),
    "no instances": error_of(lambda: ask(b"[]", "application/json", "application/json")),
    "not npy": error_of(lambda: ask(b"PK", "application/x-npy", "application/json")),
    "pickle": error_of(
        lambda: ask(npy(np.array([{}], dtype=object)), "application/x-npy", "application/json")
    ),
    "one image": refused(image),
    "none": refused([]),
    "ragged": refused([[*image[:27], image[0][:5]]]),
    "fractions": refused((digits[:1] / 255).tolist()),
    "text": refused([[["a"] * 28] * 28]),
    "range": refused((digits[:1].astype(int) + 300).tolist()),
}
Path(sys.argv[3]).write_text(json.dumps(answers))
