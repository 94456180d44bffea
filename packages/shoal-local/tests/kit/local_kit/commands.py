"""Programs that tests run to their end, and ports for servers that are told theirs."""

import random
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def ended(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program; return its exit code and what it printed. `options` are those of run()."""
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def printed(*command: str | Path, **options: Any) -> str:
    """Return what a program printed, which must succeed."""
    done = ended(*command, **options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


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
