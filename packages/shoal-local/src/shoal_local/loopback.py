"""The sockets at which the emulator listens: one port of every loopback address of this machine."""

from __future__ import annotations

import os
import socket

from shoal_local.errors import EmulatorError

IPV4, IPV6 = "127.0.0.1", "::1"
BACKLOG = 128
MAX_RETRIES = 20


def listen(port: int, retries: int = MAX_RETRIES) -> list[socket.socket]:
    """Return a socket of 127.0.0.1, and one of ::1 where the machine has it; for port 0, both have
    the same free one.

    The emulator's URLs have the name `localhost`, which may mean either address. At one that is
    left free, another user's program could take requests and answer them.

    Raises EmulatorError when a port cannot be used at one of them.
    """
    listeners: list[socket.socket] = []
    for host in hosts():
        number = listeners[0].getsockname()[1] if listeners else port
        try:
            listeners.append(_listener(host, number))
        except OSError as error:
            for each in listeners:
                each.close()
            if port == 0 and retries:
                return listen(0, retries - 1)
            raise EmulatorError(
                f"port {number} of {host} cannot be used: {os.strerror(error.errno or 0)}"
            ) from error
    return listeners


def hosts() -> list[str]:
    """Return the loopback addresses of this machine."""
    try:
        _listener(IPV6, 0).close()
    except OSError:  # without IPv6 nobody can listen there
        return [IPV4]
    return [IPV4, IPV6]


def _listener(host: str, port: int) -> socket.socket:
    """Return a listening socket, which for IPv6 takes no IPv4."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)
