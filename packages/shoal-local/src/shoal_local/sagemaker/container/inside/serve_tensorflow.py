"""The program of a TensorFlow inference container: stand-ins for both of its servers around the
user's code.

In AWS's image TensorFlow Serving, a C++ program, loads each SavedModel below /opt/ml/model and
answers its REST API. A Python service lets `code/inference.py` work on requests before and after
that (aws/sagemaker-tensorflow-serving-container). Here both are ours: the REST API of `:predict`
over TensorFlow itself, and `/ping` and `/invocations` with the documented contract of
`input_handler` and `output_handler`, or `handler`.

Not here: gRPC, `:classify` and `:regress`, batching, several models of one endpoint by request,
requirements.txt, CSV and JSON lines without an inference.py.
"""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import requests
import tensorflow as tf

MODEL_FAILED = 3
"""Exit code when a model or the user's code could not be loaded."""
_JSON = "application/json"
_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
_PREDICT = re.compile(r"/v1/models/(?P<name>[^/:]+)(/versions/(?P<version>\d+))?:(?P<method>\w+)")
_STATUS = re.compile(r"/v1/models/(?P<name>[^/:]+)")
_IN_FORM = re.compile(rb'"(instances|inputs|examples)"\s*:')
_LISTS = re.compile(rb"\s*\[\s*\[")
Answer = tuple[int, str, bytes]


class Context(NamedTuple):
    """The context that AWS's service gives the user's functions, field by field (tfs_utils.py);
    gRPC's are empty.
    """

    model_name: str | None
    model_version: str | None
    method: str | None
    rest_uri: str
    grpc_port: None
    channel: None
    custom_attributes: str | None
    request_content_type: str
    accept_header: str
    content_length: int


class RefusedError(Exception):
    """A request that TensorFlow Serving would refuse; `status` is the HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Models:
    """Every version of every SavedModel below a folder.

    A model's name is that of the folder with its numbered versions.
    """

    def __init__(self, folder: Path) -> None:
        self._loaded: dict[str, dict[int, Any]] = {}
        for file in sorted(folder.rglob("saved_model.pb")):
            version = file.parent
            if version.name.isdecimal():
                self._loaded.setdefault(version.parent.name, {})[int(version.name)] = (
                    tf.saved_model.load(str(version))
                )
        if not self._loaded:
            raise FileNotFoundError(
                f"no SavedModel in a numbered folder below {folder}, such as"
                f" {folder}/1/saved_model.pb"
            )
        self.default = os.environ.get("SAGEMAKER_TFS_DEFAULT_MODEL_NAME") or next(
            iter(self._loaded)
        )

    def status(self, name: str) -> dict[str, Any]:
        versions = [
            {"version": str(number), "state": "AVAILABLE"}
            for number in sorted(self._versions(name), reverse=True)
        ]
        return {"model_version_status": versions}

    def predict(self, name: str, version: str | None, request: Any) -> dict[str, Any]:
        """Answer TensorFlow Serving's predict.

        `instances` gives `predictions`, one for each; `inputs` gives `outputs`.
        """
        versions = self._versions(name)
        number = int(version) if version else max(versions)
        if number not in versions:
            raise RefusedError(f"Servable not found for request: Specific({name}, {number})", 404)
        if not isinstance(request, dict) or ("instances" in request) == ("inputs" in request):
            raise RefusedError(
                "Failed to process element: a request is an object with either 'instances' or"
                " 'inputs'"
            )
        signature = self._signature(
            versions[number], request.get("signature_name", "serving_default")
        )
        by_row = "instances" in request
        outputs = call(signature, in_columns(request["instances"]) if by_row else request["inputs"])
        return {"predictions": in_rows(outputs)} if by_row else {"outputs": in_one(outputs)}

    def _versions(self, name: str) -> dict[int, Any]:
        if name not in self._loaded:
            raise RefusedError(f"Servable not found for request: Latest({name})", 404)
        return self._loaded[name]

    @staticmethod
    def _signature(model: Any, name: str) -> Any:
        if name not in model.signatures:
            raise RefusedError(f'Serving signature name: "{name}" not found in signature def')
        return model.signatures[name]


def inputs_of(signature: Any) -> dict[str, Any]:
    """Return name and TensorSpec of each input."""
    return dict(signature.structured_input_signature[1])


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
        raise RefusedError("'instances' must be a list that is not empty")
    if not isinstance(instances[0], dict) or set(instances[0]) == {"b64"}:
        return instances
    if any(not isinstance(each, dict) or set(each) != set(instances[0]) for each in instances):
        raise RefusedError("the instances must all have the same keys")
    return {name: [each[name] for each in instances] for name in instances[0]}


def call(signature: Any, values: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Return the signature's outputs for `values`: one per input by name, or a bare one for the
    only input.
    """
    inputs = inputs_of(signature)
    if not isinstance(values, dict) or set(values) == {"b64"}:
        if len(inputs) != 1:
            raise RefusedError(
                f"the model has several inputs, by these names: {', '.join(sorted(inputs))}"
            )
        values = {next(iter(inputs)): values}
    if set(values) != set(inputs):
        raise RefusedError(
            f"the model's inputs are {', '.join(sorted(inputs))}; the request has"
            f" {', '.join(sorted(values))}"
        )
    try:
        tensors = {
            name: tf.constant(decode(values[name]), dtype=inputs[name].dtype) for name in inputs
        }
        return {name: tensor.numpy() for name, tensor in signature(**tensors).items()}
    except (TypeError, ValueError, tf.errors.OpError) as error:
        raise RefusedError(str(error)) from error


def decode(value: Any) -> Any:
    """Replace `{"b64": ...}` by the bytes that it stands for, wherever it is."""
    if isinstance(value, dict) and set(value) == {"b64"}:
        return base64.b64decode(value["b64"])
    return [decode(each) for each in value] if isinstance(value, list) else value


def encode(value: Any) -> Any:
    """Return arrays as lists, and bytes as text where they are text.

    TensorFlow Serving writes outputs that are not named `..._bytes` so.
    """
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


def in_one(outputs: dict[str, np.ndarray[Any, Any]]) -> Any:
    if len(outputs) == 1:
        return encode(next(iter(outputs.values())))
    return {name: encode(value) for name, value in outputs.items()}


def serving_answer(models: Models, method: str, path: str, body: bytes) -> Answer:
    """Return the answer of TensorFlow Serving's REST API."""
    try:
        document = _serving_document(models, method, path, body)
    except RefusedError as error:
        return error.status, _JSON, json.dumps({"error": str(error)}).encode()
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        return 400, _JSON, json.dumps({"error": f"JSON Parse error: {error}"}).encode()
    return 200, _JSON, json.dumps(document).encode()


def _serving_document(models: Models, method: str, path: str, body: bytes) -> dict[str, Any]:
    if method == "GET" and (match := _STATUS.fullmatch(path)):
        return models.status(match["name"])
    if method == "POST" and (match := _PREDICT.fullmatch(path)) and match["method"] == "predict":
        return models.predict(match["name"], match["version"], json.loads(body))
    raise RefusedError(
        f"Malformed request: {method} {path} (this stand-in answers :predict and the models'"
        " status)",
        404,
    )


class PythonService:
    """`/invocations`: the user's handlers around TensorFlow Serving, or its own answer without
    them.
    """

    def __init__(self, script: Path, default_model: str, rest_port: int) -> None:
        self._default_model, self._rest_port = default_model, rest_port
        self._handler = self._load(script) if script.exists() else None

    def _load(self, script: Path) -> Callable[[Any, Context], tuple[Any, str]]:
        sys.path[:0] = [str(script.parent), str(script.parent / "lib")]
        specification = importlib.util.spec_from_file_location("inference", script)
        if specification is None or specification.loader is None:
            raise ImportError(f"{script} cannot be imported")
        module = importlib.util.module_from_spec(specification)
        sys.modules["inference"] = module
        specification.loader.exec_module(module)
        if hasattr(module, "handler"):
            return module.handler  # type: ignore[no-any-return]
        if not (hasattr(module, "input_handler") and hasattr(module, "output_handler")):
            raise AttributeError(
                f"{script} has neither `handler` nor both of `input_handler` and `output_handler`"
            )

        def between(data: Any, context: Context) -> tuple[Any, str]:
            answer = requests.post(
                context.rest_uri, data=module.input_handler(data, context), timeout=60
            )
            return module.output_handler(answer, context)  # type: ignore[no-any-return]

        return between

    def answer(self, headers: Any, body: bytes) -> Answer:
        """Return status, content type and body.

        What the user's code raises is a 500 with its message, as in AWS's service.
        """
        context = self._context(headers, len(body))
        if self._handler is None:
            answer = requests.post(context.rest_uri, data=in_instances(body), timeout=60)
            return answer.status_code, _JSON, answer.content
        try:
            answer_body, content_type = self._handler(io.BytesIO(body), context)
        except Exception as error:  # noqa: BLE001 (the user's code may raise anything)
            traceback.print_exc()
            return 500, _JSON, json.dumps({"error": str(error)}).encode()
        return (
            200,
            content_type,
            answer_body if isinstance(answer_body, bytes) else str(answer_body).encode(),
        )

    def _context(self, headers: Any, length: int) -> Context:
        attributes = headers.get(_ATTRIBUTES)
        tfs = dict(
            each.split("=", 1) for each in re.findall(r"tfs-[a-z\-]+=[^,]+", attributes or "")
        )
        version = f"/versions/{tfs['tfs-model-version']}" if "tfs-model-version" in tfs else ""
        path = f"{tfs.get('tfs-model-name', self._default_model)}{version}:{tfs.get('tfs-method', 'predict')}"  # noqa: E501
        return Context(
            tfs.get("tfs-model-name"),
            tfs.get("tfs-model-version"),
            tfs.get("tfs-method"),
            f"http://localhost:{self._rest_port}/v1/models/{path}",
            None,
            None,
            attributes,
            headers.get("Content-Type") or _JSON,
            headers.get("Accept") or _JSON,
            length,
        )


def server(port: int, answer: Callable[[str, str, Any, bytes], Answer]) -> ThreadingHTTPServer:
    """Return an HTTP server whose answers come from `answer(method, path, headers, body)`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # headers and body go out one after the other: the body must not wait for an acknowledgement
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._respond("GET")

        def do_POST(self) -> None:
            self._respond("POST")

        def _respond(self, method: str) -> None:
            status, content_type, body = answer(
                method,
                self.path,
                self.headers,
                self.rfile.read(int(self.headers.get("Content-Length", 0))),
            )
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
            if self.path != "/ping":
                sys.stderr.write(f"{self.client_address[0]} {format % args}\n")

    ThreadingHTTPServer.daemon_threads = True
    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def front_answer(
    service: PythonService, method: str, path: str, headers: Any, body: bytes
) -> Answer:
    if (method, path) == ("GET", "/ping"):
        return 200, _JSON, b""
    if (method, path) != ("POST", "/invocations"):
        return 404, "text/plain", b"only /ping and /invocations"
    return service.answer(headers, body)


def main() -> int:
    folder = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")) / "model"
    if (folder / "code" / "requirements.txt").exists():
        sys.stderr.write(
            "code/requirements.txt is not installed by the emulator: what it names must be in the"
            " runtime\n"
        )
    try:
        models = Models(folder)
        serving = server(
            0, lambda method, path, _headers, body: serving_answer(models, method, path, body)
        )
        service = PythonService(
            folder / "code" / "inference.py", models.default, serving.server_port
        )
    except Exception:  # noqa: BLE001 (whatever is wrong with the model or the user's code goes to the log, and the container ends)
        traceback.print_exc()
        return MODEL_FAILED
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    port = int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    with server(
        port, lambda method, path, headers, body: front_answer(service, method, path, headers, body)
    ) as front:
        sys.stderr.write(f"Model loaded from {folder}; serving on port {port}\n")
        front.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
