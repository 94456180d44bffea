"""Ports for servers that are told theirs when they start."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def unused_ports() -> Iterator[int]:
    """Yield different ports of loopback that nobody listens at.

    They lie below the kernel's range for port 0. One of that range may be given to any outgoing
    connection before the server that is told it listens there.
    """
    lowest = int(_RANGE.read_text().split()[0])
    numbers = range(1024, lowest) or range(1024, 65_536)
    for port in random.SystemRandom().sample(numbers, len(numbers)):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        yield port
