"""A small HTTP server on 127.0.0.1 for the time of a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Answer = Callable[[Request], tuple[int, bytes]]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Serve until the block ends; yields the server's URL."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, content = answer(Request(self.command, self.path, dict(self.headers), body))
            except ConnectionResetError:  # the client gets no answer
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815 - http.server calls these names

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - http.server's name
            """Nothing: pytest shows what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
