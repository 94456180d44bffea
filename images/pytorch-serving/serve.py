"""The server of this image: answers SageMaker's requests with the functions of a model's script.

AWS's toolkit (the package sagemaker-inference) calls them, as in AWS's own image: `model_fn`,
`input_fn`, `predict_fn` and `output_fn` of `code/inference.py` in the model's archive, each with a
default. In place of TorchServe, which AWS ended, stands gunicorn. As there, a script sends parts of
an answer with `ts.handler_utils.utils.send_intermediate_predict_response`.

Variables: SAGEMAKER_PROGRAM (inference.py), SAGEMAKER_BIND_TO_PORT (8080), SAGEMAKER_BASE_DIR
(/opt/ml), SAGEMAKER_MODEL_SERVER_WORKERS (1; each has a copy of the model), SERVING_HOST (0.0.0.0:
SageMaker's requests come from outside of the container).

A model that cannot be loaded ends the container with exit code 3 and the reason in its log.
"""

from __future__ import annotations

import http
import os
import sys
import threading
import types
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication
from sagemaker_inference.transformer import Transformer
from sagemaker_pytorch_serving_container.default_pytorch_inference_handler import (
    DefaultPytorchInferenceHandler,
)

MAX_REQUESTS = 100
"""Requests that wait or are computed in a worker, as in TorchServe (job_queue_size); one more gets
a 503.
"""
SPARE_THREADS = 8
"""For pings, which SageMaker wants answered within 2 s however many requests wait (developer guide,
"How Containers Should Respond to Health Check (Ping) Requests"), and for answering 503.
"""


class Context:
    """The part of TorchServe's context that the toolkit and scripts use; one for all requests, as
    there.
    """

    model_name = "model"

    def __init__(self, folder: Path) -> None:
        self.system_properties = {"model_dir": str(folder), "gpu_id": None}

    def begin(self, headers: dict[str, str], start_response: Callable[..., Any]) -> None:
        """Forget the last request."""
        self.request_processor = [types.SimpleNamespace(get_request_properties=lambda: headers)]
        self.request_ids = {0: uuid.uuid4().hex}
        self._status, self._content_type = 200, "application/json"
        self._start_response = start_response
        self._write: Callable[[bytes], Any] | None = None

    def set_response_status(self, code: int = 200, phrase: str = "", idx: int = 0) -> None:
        self._status = code

    def set_response_content_type(self, idx: int, value: str) -> None:
        self._content_type = value

    def answer(self) -> Callable[[bytes], Any]:
        """Send status and headers, once; return what sends a part of the body."""
        if self._write is None:
            status = f"{self._status} {http.HTTPStatus(self._status).phrase}"
            self._write = self._start_response(status, [("Content-Type", self._content_type)])
        return self._write


def send_intermediate_predict_response(
    ret: list[Any], req_id_map: dict[int, str], message: str, code: int, context: Context
) -> None:
    """Send a part of the answer (TorchServe, ts/handler_utils/utils.py)."""
    context.answer()(as_bytes(ret[0]))


def provide_torchserve() -> None:
    """Make that function importable from where TorchServe has it."""
    for name in ("ts", "ts.handler_utils", "ts.handler_utils.utils"):
        sys.modules.setdefault(name, types.ModuleType(name))
    utilities: Any = sys.modules["ts.handler_utils.utils"]
    utilities.send_intermediate_predict_response = send_intermediate_predict_response


class Model:
    """A loaded model and its functions, as a WSGI application (PEP 3333).

    One request at a time is computed, as in one worker of TorchServe.
    """

    def __init__(self, folder: Path) -> None:
        """Raise what the user's script raises."""
        code = folder / "code"
        if (code / "requirements.txt").is_file():
            log("code/requirements.txt is not installed: name its packages in the image's recipe")
        provide_torchserve()
        sys.path.insert(0, str(code))
        self._context, self._one_at_a_time = Context(folder), threading.Lock()
        self._places = threading.BoundedSemaphore(MAX_REQUESTS)
        self._transformer = Transformer(DefaultPytorchInferenceHandler())
        self._transformer.validate_and_initialize(str(folder), self._context)
        log(f"model loaded from {folder}")

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer a request."""
        request = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if request == ("GET", "/ping"):
            start_response("200 OK", [("Content-Type", "application/json")])
            return []
        if request != ("POST", "/invocations"):
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [b"only /ping and /invocations"]
        if not self._places.acquire(blocking=False):
            start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
            return [b"too many requests wait for the model"]
        try:
            return [self._computed(environ, start_response)]
        finally:
            self._places.release()

    def _computed(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> bytes:
        # to its end: a batch transform may send it in chunks, without a length
        body = environ["wsgi.input"].read()
        headers = {
            name: environ[variable]
            for name, variable in (("Content-Type", "CONTENT_TYPE"), ("Accept", "HTTP_ACCEPT"))
            if environ.get(variable)
        }
        with self._one_at_a_time:
            self._context.begin(headers, start_response)
            (answer,) = self._transformer.transform([{"body": body}], self._context)
            self._context.answer()
        return as_bytes(answer)


def as_bytes(answer: Any) -> bytes:
    return bytes(answer) if isinstance(answer, bytes | bytearray) else str(answer).encode()


def log(text: str) -> None:
    sys.stderr.write(f"{text}\n")


class Server(BaseApplication):  # type: ignore[misc]
    """Run gunicorn; each worker loads the model for itself, because CUDA forbids to fork it."""

    def load_config(self) -> None:
        host = os.environ.get("SERVING_HOST", "0.0.0.0")  # noqa: S104 (see the module)
        settings = {
            "bind": f"{host}:{os.environ.get('SAGEMAKER_BIND_TO_PORT', '8080')}",
            "worker_class": "gthread",
            "workers": int(os.environ.get("SAGEMAKER_MODEL_SERVER_WORKERS", "1")),
            "threads": MAX_REQUESTS + SPARE_THREADS,
            "timeout": 0,  # SageMaker has the limits, of loading too
            "control_socket_disable": True,
        }
        for key, value in settings.items():
            self.cfg.set(key, value)

    def load(self) -> Model:
        return Model(Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")) / "model")


if __name__ == "__main__":
    Server().run()
