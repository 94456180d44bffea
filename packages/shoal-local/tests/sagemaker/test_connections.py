"""Connections into a container are used again while they live."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from shoal_local.sagemaker.hosting.connections import Connections


class Container:
    """A server that counts connections, and closes each after an answer when it is told to."""

    def __init__(self) -> None:
        self.dialled = 0
        self.closes = False
        self.says_so = False
        container = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", "2")
                if container.says_so:
                    self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(b"ok")
                self.close_connection = container.closes

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def dial(self) -> socket.socket:
        self.dialled += 1
        return socket.create_connection(("127.0.0.1", self.server.server_port))


@pytest.fixture
def container() -> Iterator[Container]:
    server = Container()
    yield server
    server.server.shutdown()
    server.server.server_close()


def ask(connections: Connections) -> bytes:
    with connections.connection(10.0) as connection:
        connection.request("GET", "/")
        return connection.getresponse().read()


def test_requests_one_after_the_other_share_a_connection(container: Container) -> None:
    connections = Connections(container.dial)
    assert [ask(connections) for _ in range(5)] == [b"ok"] * 5
    assert container.dialled == 1


def test_requests_at_once_have_a_connection_each(container: Container) -> None:
    connections = Connections(container.dial)
    with connections.connection(10.0):
        assert ask(connections) == b"ok"
    assert container.dialled == 2


@pytest.mark.parametrize("says_so", [True, False])
def test_a_connection_that_the_container_closed_is_not_used_again(
    container: Container, says_so: bool
) -> None:
    connections, container.closes, container.says_so = Connections(container.dial), True, says_so
    for _ in range(3):
        with connections.connection(10.0) as connection:
            connection.request("GET", "/")
            assert connection.getresponse().read() == b"ok"
            if not says_so:  # its end comes after the answer, so it is awaited here
                connection.sock.settimeout(10.0)
                assert connection.sock.recv(1) == b""
    assert container.dialled == 3


def test_a_connection_on_which_something_failed_is_not_used_again(container: Container) -> None:
    connections = Connections(container.dial)
    with pytest.raises(RuntimeError), connections.connection(10.0):
        raise RuntimeError("halfway")
    assert ask(connections) == b"ok"
    assert container.dialled == 2


def test_nothing_is_kept_after_the_end(container: Container) -> None:
    connections = Connections(container.dial)
    with connections.connection(10.0) as connection:
        connections.close()
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"ok"
    assert connection.sock is None
