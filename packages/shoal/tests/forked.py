"""`shoal` in a fork of a process that has imported it, which takes most of the time of a short
command.

    python -m tests.forked SOCKET                 forks for each request
    python -IS packages/shoal/tests/forked.py SOCKET ARGUMENTS   is such a `shoal`

The second has the folder, the environment, the output and the exit code of the command, and hands
signals on; when it is killed, so is the command. Forking is safe, because imports start no threads.
"""

import atexit
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

_STANDARD = (0, 1, 2)
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def command(*arguments: str) -> list[str]:
    """Return the command line of a forked `shoal`."""
    return [sys.executable, "-IS", __file__, _server(), *arguments]


@cache
def _server() -> str:
    """Start the process that forks, which ends with this one; return its address."""
    address = f"{tempfile.gettempdir()}/shoal-tests-{os.getpid()}.socket"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forked", address],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    atexit.register(process.communicate)  # closes its input
    return address


def _ask(address: str, arguments: list[str]) -> int:
    """Have a command run with what this process was started with; return its exit code."""
    request = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        text = json.dumps(request).encode()
        socket.send_fds(connection, [len(text).to_bytes(4, "big")], _STANDARD)
        connection.sendall(text)
        pid = _number_in(connection)
        for each in _FORWARDED:
            signal.signal(each, partial(_forward, pid))
        code = _number_in(connection)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _forward(pid: int, number: int, _: object) -> None:
    with suppress(ProcessLookupError):  # it has ended meanwhile
        os.kill(pid, number)


def _number_in(connection: socket.socket) -> int:
    (number,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return int(number)


def _serve(address: str) -> None:
    """Fork for each request until standard input ends; return in each fork, as its command."""
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as ready:
        listener.bind(address)
        listener.listen()
        ready.register(sys.stdin, selectors.EVENT_READ)
        ready.register(listener, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for key, _ in ready.select():
                if key.fileobj is sys.stdin:
                    Path(address).unlink()
                    sys.exit()
                elif key.fileobj is listener:
                    connection, _ = listener.accept()
                    if _has_forked(connection, ready):
                        return
                else:
                    _end(key, ready)


def _has_forked(connection: socket.socket, ready: selectors.BaseSelector) -> bool:
    """Fork for the request of a connection; return whether this is the fork."""
    head, descriptors, _, _ = socket.recv_fds(connection, 4, len(_STANDARD))
    size = int.from_bytes(head, "big")
    request = json.loads(connection.recv(size, socket.MSG_WAITALL))
    alive, ends = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(alive)
        connection.close()
        _become(request, descriptors)
        return True
    for each in (ends, *descriptors):
        os.close(each)
    connection.sendall(pid.to_bytes(4, "big"))
    for watched in (connection, alive):
        ready.register(watched, selectors.EVENT_READ, (pid, connection, alive))
    return False


def _become(request: Mapping[str, Any], descriptors: list[int]) -> None:
    """Take over what the command was started with."""
    for standard, each in zip(_STANDARD, descriptors, strict=True):
        os.dup2(each, standard)
        os.close(each)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    paths = os.environ.get("PYTHONPATH")
    sys.path[:0] = [request["folder"], *(paths.split(os.pathsep) if paths else ())]
    sys.argv = ["shoal", *request["arguments"]]
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _end(key: selectors.SelectorKey, ready: selectors.BaseSelector) -> None:
    """Answer with the exit code of a command that has ended; kill one that nobody waits for."""
    pid, connection, alive = key.data
    if connection.fileno() < 0:  # both were ready at once
        return
    ready.unregister(connection)
    ready.unregister(alive)
    if key.fileobj is connection:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if key.fileobj is alive:
        code = os.waitstatus_to_exitcode(status)
        connection.sendall(code.to_bytes(4, "big", signed=True))
    connection.close()
    os.close(alive)


def _fork() -> None:
    from shoal.cli.main import (
        Deferred,
        main,
        shoal,  # takes long, and only this process needs it
    )

    for each in shoal.commands.values():
        if isinstance(each, Deferred):
            each.load()
    del sys.path[0]  # the folder of this package
    _serve(sys.argv[1])
    sys.exit(main())


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(_ask(sys.argv[1], sys.argv[2:]))
    _fork()
