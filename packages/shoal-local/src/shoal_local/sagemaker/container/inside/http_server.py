"""The HTTP server of an inference container, for programs that have an answer to each POST."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL_FAILED = 3
"""Exit code when the model or the user's code could not be loaded."""
JSON = "application/json"
PORT = int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
Reply = tuple[int, str, bytes]
"""HTTP status, content type and body."""
Program = Callable[[str, Any, bytes, Callable[[Reply], None]], Reply]
"""`program(path, headers, body, send_part)` answers a POST.

It may send parts of its answer at once; status and content type of the first one are the answer's.
"""


def serve(load: Callable[[Path], Program]) -> int:
    """Answer GET /ping with 200 and each POST by what `load` returns; MODEL_FAILED if it raises."""
    folder = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")) / "model"
    try:
        program = load(folder)
    except Exception:  # noqa: BLE001 (whatever is wrong with the model or the user's code)
        traceback.print_exc()
        return MODEL_FAILED
    ThreadingHTTPServer.daemon_threads = True
    with ThreadingHTTPServer(("127.0.0.1", PORT), handler_class(program)) as server:
        sys.stderr.write(f"Model loaded from {folder}; serving on port {PORT}\n")
        server.serve_forever()
    return 0


def handler_class(program: Program) -> type[BaseHTTPRequestHandler]:
    """Return the HTTP handler of a program."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # headers and body go out one after the other: the body must not wait for an acknowledgement
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._send((200 if self.path == "/ping" else 404, JSON, b""))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._has_begun = False
            reply = program(self.path, self.headers, body, self._send_part)
            if self._has_begun:
                self._send_part(reply)
                self.wfile.write(b"0\r\n\r\n")
            else:
                self._send(reply)

        def _send_part(self, part: Reply) -> None:
            if not self._has_begun:
                self._has_begun = True
                self._send_head(part, "Transfer-Encoding", "chunked")
            if part[2]:  # an empty chunk would be the end
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part[2]), part[2]))

        def _send(self, reply: Reply) -> None:
            if reply[0] >= 400:
                sys.stderr.write(reply[2].decode(errors="replace") + "\n")
            self._send_head(reply, "Content-Length", str(len(reply[2])))
            self.wfile.write(reply[2])

        def _send_head(self, reply: Reply, header: str, value: str) -> None:
            self.send_response(reply[0])
            self.send_header("Content-Type", reply[1])
            self.send_header(header, value)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
            if self.path != "/ping":
                sys.stderr.write(f"{self.client_address[0]} {format % args}\n")

    return Handler
