"""Connections into one container, kept open between requests.

Opening one goes through the process that holds the container, and is slow.
"""

from __future__ import annotations

import http.client
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class _Connection(http.client.HTTPConnection):
    """Sends the head of a request with its body, so that the container is woken once."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__("localhost")
        self.auto_open = 0  # it leads into the container or nowhere
        self.sock = sock
        self._parts: list[bytes] = []

    def send(self, data: Any) -> None:
        """Keep a part of the request until its answer is asked for."""
        self._parts.append(bytes(data))

    def getresponse(self) -> http.client.HTTPResponse:
        """Send the request, and return its answer."""
        request, self._parts = b"".join(self._parts), []
        super().send(request)
        return super().getresponse()


class Connections:
    """As many connections as were ever used at once.

    `close()` ends those that are idle; others end with their request.
    """

    def __init__(self, dial: Callable[[], socket.socket]) -> None:
        self._dial = dial
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def connection(self, timeout_s: float) -> Iterator[http.client.HTTPConnection]:
        """Yield a connection for one request. Its answer must be read to the end.

        Raises what `dial` raises.
        """
        connection = self._reusable() or self._new()
        connection.sock.settimeout(timeout_s)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._keep(connection)

    def fresh(self, timeout_s: float) -> http.client.HTTPConnection:
        """Return a connection for one request, which the caller closes. Raises what `dial`
        raises.
        """
        connection = self._new()
        connection.sock.settimeout(timeout_s)
        return connection

    def _reusable(self) -> http.client.HTTPConnection | None:
        """Return the connection that was used last, unless the container has closed it."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if not _has_ended(connection.sock):
                return connection
            connection.close()

    def _new(self) -> http.client.HTTPConnection:
        connection = _Connection(self._dial())
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        """Keep a connection for the next request, unless the container said that it closes it."""
        with self._lock:
            if connection.sock is not None and not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """End idle connections, and keep none from now on."""
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for connection in idle:
            connection.close()


def _has_ended(idle: socket.socket) -> bool:
    """Return whether the other side has closed an idle connection.

    Nothing else is expected on it, so whatever can be read is its end.
    """
    poll = select.poll()
    poll.register(idle, select.POLLIN)
    return bool(poll.poll(0))
