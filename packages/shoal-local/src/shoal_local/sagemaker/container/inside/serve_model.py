"""The program of an inference container: AWS's own PyTorch inference handler behind a small HTTP
server.

The handler (sagemaker-pytorch-inference, sagemaker-inference) works as in the image. It loads
`code/inference.py`, calls model_fn, then input_fn, predict_fn and output_fn per request, and turns
exceptions into answers. Only TorchServe, a Java program, has a stand-in here: `/ping` answers 200
once the model is loaded, and `POST /invocations` is one call of the handler. A model that cannot be
loaded ends the container; TorchServe would start its worker over and over. As TorchServe's, its
`send_intermediate_predict_response` sends a part of the answer at once; a function of
`inference.py` gets the context that it needs by one more parameter.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import runpy
import sys
import threading
import types
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

imported_later = runpy.run_path(str(Path(__file__).with_name("later.py")))["imported_later"]


class Context:
    """The part of TorchServe's context that AWS's handler uses, one for all (ts/service.py)."""

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

    def reply(self, body: bytes) -> tuple[int, str, bytes]:
        """Return an answer, or a part of it, with status and content type as they are now."""
        return self.status, self.content_type, body

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


def load(folder: Path) -> Any:
    """Return what answers a POST by the model, one call at a time as one TorchServe worker does."""
    context, one_at_a_time = Context(str(folder)), threading.Lock()
    service = handler_service(folder / "code")
    service.initialize(context)

    def program(path: str, headers: Any, body: bytes, send_part: Callable[[Any], None]) -> Any:
        if path != "/invocations":
            return 404, "text/plain", b"only /invocations"
        with one_at_a_time:
            context.begin(dict(headers.items()), lambda part: send_part(context.reply(part)))
            return context.reply(as_bytes(service.handle([{"body": body}], context)[0]))

    return program


def handler_service(code: Path) -> Any:
    """Return AWS's handler, which is not initialised."""
    provide_torchserve()
    sys.path.insert(0, str(code))
    gc.disable()
    with contextlib.nullcontext() if needs_pytorch(code) else imported_later("torch"):
        module: Any = importlib.import_module("sagemaker_pytorch_serving_container.handler_service")
        service = module.HandlerService()
    gc.freeze()
    gc.enable()
    return service


def needs_pytorch(code: Path) -> bool:
    """Return whether the user's files name PyTorch, or there are none and AWS's handler loads the
    model.

    Importing it takes a second of CPU, so that the handler gets it when it is used otherwise.
    """
    files = list(code.rglob("*.py"))
    return not files or any(b"torch" in each.read_bytes() for each in files)


def as_bytes(answer: Any) -> bytes:
    return bytes(answer) if isinstance(answer, bytes | bytearray) else str(answer).encode()


if __name__ == "__main__":
    sys.exit(runpy.run_path(str(Path(__file__).with_name("http_server.py")))["serve"](load))
