"""SSH between the hosts of a job, in place of OpenSSH's keys, sshd and ssh: `serve` and `run HOST
COMMAND...`.

The training toolkit and mpirun need a server at port 22 and a program `ssh`. This is both, over the
real protocol (paramiko, which the toolkit brings). Every host of a job has the same key, as hosts
of one image have: it is derived from the secret that the emulator put next to the stand-ins. A
command runs with the environment of the server, which the training toolkit started.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import paramiko
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

SECRET = Path("/opt/emulator-bin/cluster-secret")
_PORT = 22
_BLOCK = 32 * 1024
_OPTIONS_WITH_VALUE = frozenset("BbcDEeFIiJLlmOopQRSWw")


def write_key() -> Path:
    """Write the key, if need be, where the toolkit's client and ours look; return its path."""
    path = Path.home() / ".ssh" / "id_ed25519"
    if not path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(SECRET.read_text()))
        path.touch(mode=0o600)
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    return path


class ExecOnlyServer(paramiko.ServerInterface):  # type: ignore[misc] # published without types
    """Lets in clients with the job's key, to run commands and nothing else."""

    def __init__(self, key: Any) -> None:
        self._key = key

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: Any) -> int:
        return int(paramiko.AUTH_SUCCESSFUL if key == self._key else paramiko.AUTH_FAILED)

    def check_channel_request(self, kind: str, chanid: int) -> int:
        if kind == "session":
            return int(paramiko.OPEN_SUCCEEDED)
        return int(paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED)

    def check_channel_exec_request(self, channel: Any, command: bytes) -> bool:
        threading.Thread(target=execute, args=(channel, command.decode()), daemon=True).start()
        return True


def execute(channel: Any, command: str) -> None:
    """Run one command with its streams connected to the channel, and report its exit code.

    First the client's request must be answered, which paramiko does on the thread that also reads
    the answer to ours: a channel closed before that is a failed request to the client.
    """
    channel.get_transport().global_request("keepalive@openssh.com", wait=True)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    ) as process:
        stdin: Any = process.stdin
        _in_background(channel.recv, partial(os.write, stdin.fileno()), stdin.close)
        outputs = [
            _in_background(partial(os.read, source.fileno()), send)
            for source, send in (
                (process.stdout, channel.sendall),
                (process.stderr, channel.sendall_stderr),
            )
            if source
        ]
        code = process.wait()
        for each in outputs:
            each.join()
    channel.send_exit_status(code if code >= 0 else 128 - code)
    channel.close()


def _in_background(
    read: Callable[[int], bytes],
    write: Callable[[bytes], Any],
    close: Callable[[], Any] = lambda: None,
) -> threading.Thread:
    """Copy until the source ends or the target wants no more, then close the target."""

    def copy() -> None:
        with contextlib.suppress(OSError, ValueError):
            while block := read(_BLOCK):
                write(block)
            close()

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


def serve() -> None:
    """Accept connections until killed."""
    key = paramiko.Ed25519Key.from_private_key_file(str(write_key()))
    with socket.create_server(("", _PORT), backlog=64) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_welcome, args=(connection, key), daemon=True).start()


def _welcome(connection: socket.socket, key: Any) -> None:
    transport = paramiko.Transport(connection)
    transport.add_server_key(key)
    try:
        transport.start_server(server=ExecOnlyServer(key))
        transport.join()
    except (paramiko.SSHException, EOFError, OSError) as error:
        sys.stderr.write(f"sshd: {error}\n")
    finally:
        transport.close()


def destination(arguments: list[str]) -> tuple[str, str]:
    """Return host and command of an `ssh` command line; OpenSSH's options do not apply here."""
    words = list(arguments)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if len(option) == 2 and option[1] in _OPTIONS_WITH_VALUE and words:
            words.pop(0)
    if len(words) < 2:
        raise SystemExit(
            "ssh: a host and a command are needed; this stand-in has no interactive sessions"
        )
    return words[0].rpartition("@")[2], " ".join(words[1:])


def run(arguments: list[str]) -> int:
    """Run a command on another host; return its exit code, or ssh's 255 if unreachable."""
    host, command = destination(arguments)
    key = paramiko.Ed25519Key.from_private_key_file(str(write_key()))
    client = paramiko.SSHClient()
    client.get_host_keys().add(host, key.get_name(), key)
    try:
        client.connect(host, pkey=key, allow_agent=False, look_for_keys=False)
        channel = client.get_transport().open_session()
        channel.exec_command(command)
    except (paramiko.SSHException, OSError, EOFError) as error:
        sys.stderr.write(f"ssh: connect to host {host} port {_PORT}: {error}\n")
        return 255
    _in_background(partial(os.read, 0), channel.sendall, channel.shutdown_write)
    outputs = [
        _in_background(channel.recv, partial(os.write, 1)),
        _in_background(channel.recv_stderr, partial(os.write, 2)),
    ]
    for each in outputs:
        each.join()
    return int(channel.recv_exit_status())


def main() -> int:
    if sys.argv[1] == "run":
        return run(sys.argv[2:])
    serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
