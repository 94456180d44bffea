"""Starts a pod (see `pod`) and stays in touch with it: log lines, exit codes, connections into
it.
"""

import contextlib
import functools
import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path

from shoal_local.control.state import STATE_FILE
from shoal_local.processes import ProcessRegistry, in_thread

_BLOCK = 256 * 1024


class Relay:
    """Accepts on a socket of another network namespace, until closed; two threads a connection."""

    def __init__(self, listener: socket.socket, port: int) -> None:
        self._listener = listener
        self._port = port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._thread = in_thread("relay", self._accept)

    def _accept(self) -> None:
        while True:
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
                in_thread("relay", self._copy, source, target, remaining)

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
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=5)


_SOURCE_ROOT = Path(__file__).resolve().parents[3]
_MODULE = "shoal_local.sagemaker.container.pod"
PLAIN_VARIABLE = "SHOAL_PLAIN_CONTAINERS"
"""Environment variable that makes containers without namespaces even where the machine could make
them.
"""
_BEGIN_S, _ANSWER_S = 60.0, 10.0
"""For a pod to begin, and to answer: it connects within 5 s, and one that is frozen never does."""
_END_S = 5.0
"""For a pod that is told to end at once, before it is killed."""
_HIDDEN = (STATE_FILE, "sagemaker-jobs", "accounts", "regions")
"""What containers do not see in the state directory: secrets, also those of other jobs' roles."""
MAX_LINE_BYTES = 256 * 1024
"""CloudWatch Logs takes 256 KB an event; a longer line is cut into several."""

log = logging.getLogger(__name__)


class PodError(Exception):
    """A container could not be created; `str()` says what the machine refused."""


@dataclass(frozen=True)
class Host:
    """One container: `folder` has `ml`, `tmp`, `opt`, `bin` and the file `hosts` (see `host`)."""

    name: str
    folder: Path
    command: Sequence[str]
    environment: Mapping[str, str]
    address: str | None = None
    """Its own IPv4 address on the pod's bridge; the hosts of a pod either all have one, or share
    one loopback interface.
    """
    read_only: Mapping[str, Path] = field(default_factory=dict)
    """Folders of this machine by paths below /opt/ml at which the container sees them and cannot
    write; only with namespaces.
    """


@functools.cache
def isolation_refused() -> str | None:
    """Return why there are no namespaces, in the machine's own words; None if it can make them."""
    if os.environ.get(PLAIN_VARIABLE):
        return f"{PLAIN_VARIABLE} is set"
    if sys.platform != "linux":
        return f"{sys.platform} has no Linux namespaces"
    return _probe("--probe")


@functools.cache
def networks_refused() -> str | None:
    """Return why a job cannot have several hosts, in the machine's own words; None if it can."""
    return isolation_refused() or _probe("--probe-networks")


def _probe(option: str) -> str | None:
    probe = subprocess.run(
        _pod_command(option),
        env=_pod_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if probe.returncode == 0:
        return None
    return (probe.stderr.strip().splitlines() or ["no reason given"])[-1]


def _pod_command(*arguments: str) -> list[str]:
    return [sys.executable, "-s", "-m", _MODULE, *arguments]


def _pod_environment() -> dict[str, str]:
    return {
        "PYTHONPATH": str(_SOURCE_ROOT),
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


class Pod:
    """Running containers that reach each other, started when this is constructed.

    `on_line(host, line)` is called for each line of output, from a thread per host. `close()` ends
    every process; it is safe to call twice.
    """

    def __init__(
        self,
        folder: Path,
        hosts: Sequence[Host],
        registry: ProcessRegistry,
        visible: Sequence[Path],
        ports: Sequence[int],
        on_line: Callable[[str, str], None],
    ) -> None:
        """`ports` of this machine's loopback are theirs too: shoal-local's first."""
        self._folder, self._hosts, self._registry = folder, hosts, registry
        self._exit_codes = folder / "exit-codes.json"
        self._dialling = threading.Lock()
        self._readers: list[threading.Thread] = []
        self._relays: list[Relay] = []
        self._exit_codes.unlink(missing_ok=True)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        outputs = [os.pipe() for _ in self._hosts]
        specification = self._write_specification(
            visible, ports, [write_end for _, write_end in outputs]
        )
        inherited = [theirs.fileno(), *(write_end for _, write_end in outputs)]
        with theirs, (self._folder / "pod.log").open("wb") as own_output:
            self._process = subprocess.Popen(
                _pod_command(str(specification), str(theirs.fileno())),
                env=_pod_environment(),
                pass_fds=inherited,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=own_output,
            )
        self._control = ours
        self._registry.register(self._process.pid, f"containers of {self._folder.name}")
        for host, (read_end, write_end) in zip(self._hosts, outputs, strict=True):
            os.close(write_end)
            self._read(host.name, read_end, on_line)
        self._connect_relays(ports)

    def _write_specification(
        self, visible: Sequence[Path], ports: Sequence[int], outputs: Sequence[int]
    ) -> Path:
        state_dir = self._registry.state_dir
        hidden = [state_dir / name for name in _HIDDEN if (state_dir / name).exists()]
        hosts = [
            asdict(host) | {"output_fd": output, "hidden": hidden}
            for host, output in zip(self._hosts, outputs, strict=True)
        ]
        specification = {
            "isolation": "none" if isolation_refused() else "namespaces",
            "ports": ports,
            "visible": visible,
            "hosts": hosts,
            "exit_codes": self._exit_codes,
        }
        path = self._folder / "pod.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(specification, default=str))
        return path

    def _connect_relays(self, ports: Sequence[int]) -> None:
        self._control.settimeout(_BEGIN_S)
        count = len(self._hosts) * len(ports)
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, 64, count)
        except TimeoutError as error:
            self.close()
            raise PodError(f"the pod did not begin within {_BEGIN_S:g} s") from error
        self._control.settimeout(_ANSWER_S)
        if message == b"relay":
            listeners = [socket.socket(fileno=descriptor) for descriptor in descriptors]
            self._relays = [*map(Relay, listeners, cycle(ports))]
        elif message != b"direct":
            self.close()
            reason = (self._folder / "pod.log").read_text(errors="replace").strip()
            raise PodError(reason or "the pod ended before it began")

    def _read(self, host: str, read_end: int, on_line: Callable[[str, str], None]) -> None:
        def pump() -> None:
            has_failed = False
            with os.fdopen(read_end, "rb") as stream:
                while line := stream.readline(MAX_LINE_BYTES):
                    try:
                        on_line(host, line.decode(errors="replace").rstrip("\r\n"))
                    except Exception:
                        # Without a reader the container could not go on writing.
                        if not has_failed:
                            log.exception("a line of %s in %s failed", host, self._folder)
                        has_failed = True

        self._readers.append(in_thread(f"log of {host}", pump))

    def wait(self, timeout_s: float) -> bool:
        """Return whether every host has ended within `timeout_s`."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def exit_codes(self) -> dict[str, int | None]:
        """Return each host's exit code after the end; None for one that was killed with the pod."""
        if self._exit_codes.exists():
            return dict(json.loads(self._exit_codes.read_text()))
        return {host.name: None for host in self._hosts}

    def terminate(self) -> None:
        """Send SIGTERM to every process of every host."""
        with contextlib.suppress(OSError):
            self._control.send(b"terminate")

    def dial(self, port: int) -> socket.socket:
        """Connect to `port` of the hosts' loopback; raise ConnectionError if nobody listens."""
        with self._dialling:
            try:
                self._control.send(f"dial {port}".encode())
                message, descriptors, _, _ = socket.recv_fds(self._control, 64, 1)
            except TimeoutError as error:
                raise ConnectionError("the container does not answer") from error
            except OSError as error:
                raise ConnectionError("the container has ended") from error
        if not descriptors:
            raise ConnectionError(message.decode() or "the container has ended")
        return socket.socket(fileno=descriptors[0])

    def close(self) -> None:
        """Kill what is left, wait for the last log line, release every resource."""
        with contextlib.suppress(OSError):
            # the pod ends its hosts: without namespaces they would outlive it
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._control.close()
        for reader in self._readers:
            reader.join(timeout=10)
        for relay in self._relays:
            relay.close()
        self._registry.forget(self._process.pid)
