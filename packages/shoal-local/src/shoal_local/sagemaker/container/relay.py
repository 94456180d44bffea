"""Lets containers reach the emulator: copies connections of their network to its port."""

from __future__ import annotations

import contextlib
import socket
import threading

_BLOCK = 256 * 1024


class Relay:
    """Accepts on `listener`, a socket of another network namespace, until closed.

    Each direction of a connection has a thread.
    """

    def __init__(self, listener: socket.socket, port: int) -> None:
        self._listener = listener
        self._port = port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._accept, name="relay", daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            try:
                outer = socket.create_connection(("127.0.0.1", self._port))
            # the emulator is going down: the client sees what it would see of a server that is gone
            except OSError:
                inner.close()
                continue
            with self._lock:
                self._open |= {inner, outer}
            remaining = [2]
            for source, target in ((inner, outer), (outer, inner)):
                threading.Thread(
                    target=self._copy, args=(source, target, remaining), name="relay", daemon=True
                ).start()

    def _copy(self, source: socket.socket, target: socket.socket, remaining: list[int]) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(_BLOCK):
                target.sendall(block)
            target.shutdown(socket.SHUT_WR)
        with self._lock:
            remaining[0] -= 1
            if remaining[0] == 0:
                for each in (source, target):
                    each.close()
                    self._open.discard(each)

    def close(self) -> None:
        """Stop accepting and cut what is open."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=5)
