"""The HTTP side of the server: requests in, answers out, on connections that stay open; and the log
of requests: one JSON line each in `<state_dir>/requests.jsonl`, for every account.
"""

import io
import json
import logging
import os
import select
import socket
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

from moto.moto_server.werkzeug_app import MotoRequestHandler

from shoal_local.control.http.loopback_guard import LENGTH
from shoal_local.control.http.protocol import BLOCK, ApiCall, account_of

log = logging.getLogger(__name__)
_MAX_DISCARDED_BYTES = 1024 * 1024
_MORE_WITHIN_S = 0.01
"""For the rest of a body that nobody wants, before the connection ends."""


class _Body(io.RawIOBase):
    """A request's body, which knows how much of it is left to be read."""

    def __init__(self, file: io.BufferedIOBase, length: int) -> None:
        super().__init__()
        self._file, self.left = file, length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(min(len(buffer), self.left)) if self.left else b""
        buffer[: len(data)] = data
        self.left -= len(data)
        return len(data)


class RequestHandler(MotoRequestHandler):
    """Answers the requests of one connection. Writes no access log: requests.jsonl says more.

    werkzeug's own handler ends the connection after each request. Every request of a client would
    then cost both sides a connection, and this process a thread.
    """

    protocol_version = "HTTP/1.1"
    timeout = 60.0
    """Seconds that the other end may say nothing, so that half a request keeps no thread."""
    disable_nagle_algorithm = True

    def setup(self) -> None:
        """Note the connection, so that the server's end is its end."""
        super().setup()
        _connections(self.server).add(self.connection)

    def finish(self) -> None:
        """Forget the connection."""
        _connections(self.server).discard(self.connection)
        super().finish()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""

    def log(self, _type: str, message: str, *arguments: Any) -> None:
        """Keep what http.server says, of connections that were idle too long most of all."""
        log.debug(message, *arguments)

    def run_wsgi(self) -> None:
        """Answer one request; the connection ends after it if its body was not read to the end."""
        if self.headers.get("Expect", "").lower().strip() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.environ = environ = self.make_environ()
        body = self._body(environ)
        head: list[Any] = []

        def start_response(status: str, headers: list[tuple[str, str]], _error: Any = None) -> None:
            head[:] = status, headers

        try:
            parts: Iterable[bytes] = self.server.app(environ, cast("Any", start_response))
        except Exception:
            log.exception("request failed: %s", self.path)
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
            return
        try:
            self._answer(head[0], head[1], parts, body)
        finally:
            getattr(parts, "close", lambda: None)()
        if self.close_connection:
            self._discard()

    def _body(self, environ: dict[str, Any]) -> _Body | None:
        """Let the application read the body of this request and no more.

        None for a chunked one, whose end only its reader finds. Where a length is no single number,
        the connection ends, and the loopback guard refuses the request.
        """
        if environ.get("wsgi.input_terminated"):
            return None
        lengths = self.headers.get_all("Content-Length", ["0"])
        is_number = len(lengths) == 1 and LENGTH.match(lengths[0]) is not None
        self.close_connection = self.close_connection or not is_number
        body = _Body(self.rfile, int(lengths[0]) if is_number else 0)
        environ |= {"CONTENT_LENGTH": ",".join(lengths), "wsgi.input": body}
        return body

    def _answer(
        self,
        status: str,
        headers: list[tuple[str, str]],
        parts: Iterable[bytes],
        body: _Body | None,
    ) -> None:
        code, _, phrase = status.partition(" ")
        names = {name.lower() for name, _ in headers}
        has_body = self.command != "HEAD" and int(code) not in {
            HTTPStatus.NO_CONTENT,
            HTTPStatus.NOT_MODIFIED,
        }
        is_chunked = has_body and "content-length" not in names
        self.close_connection = self.close_connection or body is None or body.left > 0
        self.send_response(int(code), phrase)
        for name, value in headers:
            self.send_header(name, value)
        if is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
        if self.close_connection:
            self.send_header("Connection", "close")
        # The head goes out with the first part, so that the client is woken once.
        pending = b"".join([*vars(self).pop("_headers_buffer"), b"\r\n"])
        for part in parts:
            if part and has_body:
                chunk = b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part
                self.wfile.write(pending + chunk)
                pending = b""
        if pending or is_chunked:
            self.wfile.write(pending + (b"0\r\n\r\n" if is_chunked else b""))

    def _discard(self) -> None:
        """Read what the client still sends, so that it sees the answer and no reset connection."""
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        left = _MAX_DISCARDED_BYTES
        while left > 0 and poll.poll(_MORE_WITHIN_S * 1000) and (data := self.rfile.read1(BLOCK)):
            left -= len(data)


def _connections(server: object) -> set[socket.socket]:
    connections: set[socket.socket] = vars(server).setdefault("connections", set())
    return connections


def end_connections(server: object) -> None:
    """Take no more requests on open connections; what is being answered still is."""
    for connection in list(_connections(server)):
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RD)


# Policies are not cut: they say what later requests were allowed to do.
WHOLE = frozenset(
    {"PolicyDocument", "AssumeRolePolicyDocument", "Policy", "PolicyText", "policyText"}
)
MAX_VALUE_LENGTH = 200
MAX_MEMBERS = 20
PAYLOADS = frozenset(
    {
        *("Body", "Payload", "ZipFile", "TemplateBody", "PipelineDefinition", "logEvents"),
        *("MetricData", "SecretString"),
    }
)


@dataclass
class RequestLog:
    """Appends to the file; safe from many threads.

    A line says when, what, in which account, by whom, with which parameters and outcome, how many
    bytes came and went, and what IAM is asked (`unmapped` where that is not known). Long values are
    cut and payloads left out.
    """

    path: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_whole: bool = True

    def record(
        self, call: ApiCall, status: int, error: str | None = None, *, sent: int = 0
    ) -> None:
        """Write one line; `sent` is the length of the answer's body in bytes."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "service": call.service,
            "operation": call.operation,
            "account": call.account or account_of(call.caller_arn),
            "caller": call.caller_arn,
            "region": call.region,
            "parameters": shortened(call.parameters),
            "status": status,
            "received": call.received,
            "sent": sent,
            **(
                {"unmapped": True}
                if call.questions is None
                else {"questions": [question.as_json() for question in call.questions]}
            ),
            **({"error": error} if error else {}),
        }
        text = (json.dumps(line, default=str) + "\n").encode()
        with self._lock:
            try:
                descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                with os.fdopen(descriptor, "ab", buffering=0) as file:
                    file.write(text)
            except OSError:  # a full disk must not keep anybody from stopping and deleting
                if self._is_whole:
                    log.exception("%s has not every request", self.path)
                self._is_whole = False


def shortened(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters without payloads and with long values cut."""
    given = (key for key, value in parameters.items() if value is not None)
    readable = [key for key in given if not hasattr(parameters[key], "read")][:MAX_MEMBERS]
    is_secret = parameters.get("Type") == "SecureString"
    hidden = PAYLOADS | {"Value"} if is_secret else PAYLOADS
    members = {key: parameters[key] for key in readable if key not in hidden}
    return {
        key: value if key in WHOLE and isinstance(value, str) else _short(value)
        for key, value in members.items()
    }


def _short(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return f"{len(value)} bytes"
    if isinstance(value, Mapping):
        return shortened(value)
    if isinstance(value, list | tuple):
        return [_short(item) for item in value[:MAX_MEMBERS]]
    if isinstance(value, str) and len(value) > MAX_VALUE_LENGTH:
        return value[:MAX_VALUE_LENGTH] + "..."
    return value
