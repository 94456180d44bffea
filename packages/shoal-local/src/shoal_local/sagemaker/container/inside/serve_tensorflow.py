"""The program of a TensorFlow inference container: stand-ins for both of its servers around the
user's code.

In AWS's image TensorFlow Serving, a C++ program, loads each SavedModel below /opt/ml/model and
answers its REST API. A Python service lets `code/inference.py` work on requests before and after
that (aws/sagemaker-tensorflow-serving-container). Here both are ours: the REST API of `:predict`
over TensorFlow itself, and `/ping` and `/invocations` with the documented contract of
`input_handler` and `output_handler`, or `handler`.

Not here: gRPC, `:classify` and `:regress`, columns (`inputs`), bytes (`b64`), batching, models
and versions chosen by request, the models' status, requirements.txt, CSV and JSON lines without an
inference.py.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import requests
import tensorflow as tf

_http_server = runpy.run_path(str(Path(__file__).with_name("http_server.py")))
_JSON = "application/json"
_SIGNATURE = "serving_default"
_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
_PREDICT = re.compile(r"/v1/models/(?P<name>[^/:]+):predict")
_IN_FORM = re.compile(rb'"(instances|inputs|examples)"\s*:')
_LISTS = re.compile(rb"\s*\[\s*\[")
Reply = tuple[int, str, bytes]


class Context(NamedTuple):
    """AWS's context of the user's functions (tfs_utils.py), without gRPC and choices by name."""

    model_name: None = None
    model_version: None = None
    method: None = None
    rest_uri: str = ""
    grpc_port: None = None
    channel: None = None
    custom_attributes: str | None = None
    request_content_type: str = _JSON
    accept_header: str = _JSON
    content_length: int = 0


def load_models(folder: Path) -> dict[str, Any]:
    """Return the latest version of each SavedModel, by the folder of its numbered versions."""
    versions = [
        file.parent
        for file in sorted(folder.rglob("saved_model.pb"))
        if file.parent.name.isdecimal()
    ]
    if not versions:
        raise FileNotFoundError(
            f"no SavedModel in a numbered folder below {folder}, such as {folder}/1/saved_model.pb"
        )
    latest = {each.parent.name: each for each in sorted(versions, key=lambda each: int(each.name))}
    return {name: tf.saved_model.load(str(path)) for name, path in latest.items()}


def predict(models: dict[str, Any], model_name: str, request: Any) -> dict[str, Any]:
    """Answer TensorFlow Serving's predict: `predictions`, one for each of `instances`."""
    if model_name not in models:
        raise ValueError(f"Servable not found for request: Latest({model_name})")
    if not isinstance(request, dict) or set(request) - {"signature_name"} != {"instances"}:
        raise ValueError("this stand-in takes an object with 'instances' and nothing else")
    signatures, name = models[model_name].signatures, request.get("signature_name", _SIGNATURE)
    if name not in signatures:
        raise ValueError(f'Serving signature name: "{name}" not found in signature def')
    return {"predictions": in_rows(call(signatures[name], in_columns(request["instances"])))}


def in_instances(body: bytes) -> bytes:
    """Return a JSON request in the form that TensorFlow Serving takes.

    As AWS's nginx does without an inference.py (tensorflowServing.js): what names no such key is
    one instance, or several in a list of lists. SageMaker's SDK sends arrays so.
    """
    if _IN_FORM.search(body):
        return body
    instances = body if _LISTS.match(body) else b"[" + body + b"]"
    return b'{"instances":' + instances + b"}"


def in_columns(instances: Any) -> Any:
    """Return a list of instances as one list per input, or as it is if they are plain values."""
    if not isinstance(instances, list) or not instances:
        raise ValueError("'instances' must be a list that is not empty")
    if not isinstance(instances[0], dict):
        return instances
    if any(not isinstance(each, dict) or set(each) != set(instances[0]) for each in instances):
        raise ValueError("the instances must all have the same keys")
    return {name: [each[name] for each in instances] for name in instances[0]}


def call(signature: Any, values: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Return the outputs for `values`: one per input by name, or that of the only input."""
    inputs = dict(signature.structured_input_signature[1])  # the TensorSpec of each, by name
    if not isinstance(values, dict):
        if len(inputs) != 1:
            raise ValueError(
                f"the model has several inputs, by these names: {', '.join(sorted(inputs))}"
            )
        values = {next(iter(inputs)): values}
    if set(values) != set(inputs):
        raise ValueError(
            f"the model's inputs are {', '.join(sorted(inputs))}; the request has"
            f" {', '.join(sorted(values))}"
        )
    tensors = {name: tf.constant(values[name], dtype=inputs[name].dtype) for name in inputs}
    return {name: tensor.numpy() for name, tensor in signature(**tensors).items()}


def encode(value: Any) -> Any:
    """Return arrays as lists, and bytes as text, as TensorFlow Serving does without `..._bytes`."""
    if isinstance(value, np.ndarray):
        return encode(value.tolist())
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return [encode(each) for each in value] if isinstance(value, list) else value


def in_rows(outputs: dict[str, np.ndarray[Any, Any]]) -> list[Any]:
    if len(outputs) == 1:
        return list(encode(next(iter(outputs.values()))))
    columns = {name: encode(value) for name, value in outputs.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def serving_reply(models: dict[str, Any], name: str, body: bytes) -> Reply:
    """Return the reply of TensorFlow Serving's REST API."""
    try:
        return 200, _JSON, json.dumps(predict(models, name, json.loads(body))).encode()
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        reason = f"JSON Parse error: {error}"
    except (TypeError, ValueError, tf.errors.OpError) as error:
        reason = str(error)
    return 400, _JSON, json.dumps({"error": reason}).encode()


def handler_in(script: Path) -> Callable[[Any, Context], tuple[Any, str]]:
    """Return the handler of a user's `inference.py`; two functions become one."""
    sys.path[:0] = [str(script.parent), str(script.parent / "lib")]
    module = importlib.import_module(script.stem)
    if hasattr(module, "handler"):
        return module.handler  # type: ignore[no-any-return]
    if not (hasattr(module, "input_handler") and hasattr(module, "output_handler")):
        raise AttributeError(
            f"{script} has neither `handler` nor both of `input_handler` and `output_handler`"
        )

    def between(data: Any, context: Context) -> tuple[Any, str]:
        content = module.input_handler(data, context)
        answer = requests.post(context.rest_uri, data=content, timeout=60)
        return module.output_handler(answer, context)  # type: ignore[no-any-return]

    return between


def python_service(script: Path, rest_uri: str) -> Callable[[Any, bytes], Reply]:
    """Return what answers `/invocations`: the user's handler, or TensorFlow Serving without one."""
    handler = handler_in(script) if script.exists() else None

    def reply(headers: Any, body: bytes) -> Reply:
        if handler is None:
            answer = requests.post(rest_uri, data=in_instances(body), timeout=60)
            return answer.status_code, _JSON, answer.content
        context = Context(
            rest_uri=rest_uri,
            custom_attributes=headers.get(_ATTRIBUTES),
            request_content_type=headers.get("Content-Type") or _JSON,
            accept_header=headers.get("Accept") or _JSON,
            content_length=len(body),
        )
        try:
            content, content_type = handler(io.BytesIO(body), context)
        except Exception as error:  # noqa: BLE001 (the user's code may raise anything)
            traceback.print_exc()
            return 500, _JSON, json.dumps({"error": str(error)}).encode()
        is_bytes = isinstance(content, bytes)
        return 200, content_type, content if is_bytes else str(content).encode()

    return reply


def load(folder: Path) -> Any:
    """Return what answers a POST, with the models of a folder and the user's code loaded."""
    if (folder / "code" / "requirements.txt").exists():
        sys.stderr.write(
            "code/requirements.txt is not installed by the emulator: what it names must be in the"
            " runtime\n"
        )
    models = load_models(folder)
    default = os.environ.get("SAGEMAKER_TFS_DEFAULT_MODEL_NAME") or next(iter(models))
    rest_uri = f"http://localhost:{_http_server['PORT']}/v1/models/{default}:predict"
    reply = python_service(folder / "code" / "inference.py", rest_uri)

    def program(path: str, headers: Any, body: bytes, _send_part: Any) -> Reply:
        if match := _PREDICT.fullmatch(path):
            return serving_reply(models, match["name"], body)
        if path == "/invocations":
            return reply(headers, body)
        message = f"{path}: this stand-in answers /invocations and /v1/models/NAME:predict"
        return 404, _JSON, json.dumps({"error": message}).encode()

    return program


if __name__ == "__main__":
    sys.exit(_http_server["serve"](load))
