"""The program of an inference container: AWS's own PyTorch inference handler behind a small HTTP
server.

The handler (sagemaker-pytorch-inference, sagemaker-inference) works as in the image. It loads
`code/inference.py`, calls model_fn, then input_fn, predict_fn and output_fn per request, and turns
exceptions into answers. Only TorchServe, a Java program, has a stand-in here: `/ping` answers 200
once the model is loaded, and `POST /invocations` is one call of the handler. As TorchServe's, its
`send_intermediate_predict_response` sends a part of the answer at once; a function of
`inference.py` gets the context that it needs by one more parameter.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import runpy
import sys
import threading
import traceback
import types
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

imported_later = runpy.run_path(str(Path(__file__).with_name("later.py")))["imported_later"]
MODEL_FAILED = 3
"""Exit code when the model could not be loaded; TorchServe would start its worker over and over
until SageMaker gives up.
"""


class Context:
    """The part of TorchServe's context that AWS's handler uses.

    There is one for all requests, as in TorchServe (ts/service.py).
    """

    def __init__(self, model_dir: str) -> None:
        # as AWS's torchserve.py names it (DEFAULT_TS_MODEL_NAME); the wheel of sagemaker-inference
        # 1.10.1 logs it when a handler raises, its source archive of that version does not
        self.model_name = "model"
        self.system_properties = {"model_dir": model_dir, "gpu_id": None}
        self.begin({}, lambda _part: None)

    def begin(self, headers: dict[str, str], send_part: Callable[[bytes], None]) -> None:
        """Forget the last request; `send_part` sends a part of the answer to this one."""
        self.request_processor = [types.SimpleNamespace(get_request_properties=lambda: headers)]
        self.request_ids = {0: uuid.uuid4().hex}
        self.send_part = send_part
        self.status, self.content_type = 200, "application/json"

    def set_response_status(self, code: int = 200, phrase: str = "", idx: int = 0) -> None:
        self.status = code

    def set_response_content_type(self, idx: int, value: str) -> None:
        self.content_type = value


def send_intermediate_predict_response(
    ret: list[Any], req_id_map: dict[int, str], message: str, code: int, context: Context
) -> None:
    """Send a part of the answer (TorchServe, ts/handler_utils/utils.py)."""
    context.send_part(as_bytes(ret[0]))


def provide_torchserve() -> None:
    """Make the function importable from where TorchServe has it, now and before 0.9."""
    for name in ("ts.handler_utils.utils", "ts.protocol.otf_message_handler"):
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            path = ".".join(parts[:depth])
            sys.modules.setdefault(path, types.ModuleType(path))
        vars(sys.modules[name]).update(
            send_intermediate_predict_response=send_intermediate_predict_response
        )


def load(context: Context) -> Any:
    """Return the initialised handler service; raise what the user's model_fn raises."""
    model_dir = str(context.system_properties["model_dir"])
    provide_torchserve()
    code = Path(model_dir) / "code"
    sys.path.insert(0, str(code))
    gc.disable()
    with contextlib.nullcontext() if needs_pytorch(code) else imported_later("torch"):
        service = importlib.import_module(
            "sagemaker_pytorch_serving_container.handler_service"
        ).HandlerService()
    gc.freeze()
    gc.enable()
    service.initialize(context)
    return service


def needs_pytorch(code: Path) -> bool:
    """Return whether the user's files name PyTorch, or there are none and AWS's handler loads the
    model.

    Importing it takes a second of CPU, so that the handler gets it when it is used otherwise.
    """
    files = list(code.rglob("*.py"))
    return not files or any(b"torch" in each.read_bytes() for each in files)


def handler_class(service: Any, context: Context) -> type[BaseHTTPRequestHandler]:
    """Return the HTTP handler of the service.

    It makes one call at a time, as one TorchServe worker does.
    """
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # headers and body go out one after the other: the body must not wait for an acknowledgement
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._answer(200 if self.path == "/ping" else 404, "application/json", b"")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path != "/invocations":
                self._answer(404, "text/plain", b"only /invocations")
                return
            self._has_begun = False
            with one_at_a_time:
                context.begin(dict(self.headers.items()), self._part)
                answer = as_bytes(service.handle([{"body": body}], context)[0])
                status, content_type = context.status, context.content_type
            if self._has_begun:
                self._part(answer)
                self.wfile.write(b"0\r\n\r\n")
            else:
                self._answer(status, content_type, answer)

        def _part(self, part: bytes) -> None:
            """Send a chunk; the first one's status and content type are the answer's."""
            if not self._has_begun:
                self._has_begun = True
                self.send_response(context.status)
                self.send_header("Content-Type", context.content_type)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
            if part:  # an empty chunk would be the end
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))

        def _answer(self, status: int, content_type: str, body: bytes) -> None:
            if status >= 400:
                sys.stderr.write(body.decode(errors="replace") + "\n")
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
            if self.path != "/ping":
                sys.stderr.write(f"{self.client_address[0]} {format % args}\n")

    return Handler


def as_bytes(answer: Any) -> bytes:
    return bytes(answer) if isinstance(answer, bytes | bytearray) else str(answer).encode()


def main() -> int:
    model_dir = str(Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")) / "model")
    try:
        context = Context(model_dir)
        service = load(context)
    except Exception:  # noqa: BLE001 (whatever a user's model_fn raises goes to the log, and the container ends)
        traceback.print_exc()
        return MODEL_FAILED
    port = int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    ThreadingHTTPServer.daemon_threads = True
    with ThreadingHTTPServer(("127.0.0.1", port), handler_class(service, context)) as server:
        sys.stderr.write(f"Model loaded from {model_dir}; serving on port {port}\n")
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
