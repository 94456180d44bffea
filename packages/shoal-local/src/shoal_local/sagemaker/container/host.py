"""One host of a pod: its mounts, its first process, and the exit code of its command.

In the container `/opt/ml` is the host's `ml` folder, `/tmp` its `tmp`, and `/opt/emulator` our
stand-ins. The rest of the machine can be read and not written, but for what is not a job's: the
emulator's state file with its secret, and the folders of jobs. The paths of `visible` stay readable
where a mount of ours would hide them.
"""

import contextlib
import functools
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal_local.sagemaker.container import namespaces

_TMP = Path("/tmp")  # noqa: S108 (the container's own)
_OPT = Path("/opt")
_SBIN = Path("/usr/sbin")
_MACHINE = ".machine"
_ENVIRONMENT = Path("/etc/environment")
_INSIDE = Path(__file__).parent / "inside"
_MAX_INTERFACE_NAME = 15
"""IFNAMSIZ without its final zero."""

_HELD = {signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD}

Host = dict[str, Any]


def run_isolated(host: Host, visible: list[str], pod: socket.socket | None = None) -> int:
    """Run the host's command with its own mounts, hostname and process table; return its exit code.

    With `pod` it has its own network too, which the pod joins to its bridge (see `network_of`).
    """
    namespaces.die_with_parent()
    _hold_signals()
    flags = namespaces.NEW_MOUNTS | namespaces.NEW_HOSTNAME | namespaces.NEW_PIDS
    namespaces.unshare(flags | (namespaces.NEW_NETWORK if pod else 0))
    if pod:
        _enter_network(host, pod)
    first = os.fork()
    if first == 0:
        os._exit(_first_process(host, visible))
    return _wait_for(first, {signal.SIGTERM: lambda: os.kill(first, signal.SIGTERM)})


def _hold_signals() -> None:
    """Hold signals until `_wait_for` takes them, when there is a process to pass them on to."""
    # macOS drops what is ignored, held or not
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)


def _enter_network(host: Host, pod: socket.socket) -> None:
    """Wait for the link into our network, and send the pod a listener for each port."""
    with pod:
        pod.send(b"alone")
        if pod.recv(16) != b"joined":
            raise ConnectionAbortedError(
                f"{host['name']}: the pod ended before it had joined this host's network"
            )
        namespaces.bring_up("lo")
        namespaces.give_address(namespaces.INTERFACE, host["address"])
        namespaces.bring_up(namespaces.INTERFACE)
        send_listeners(pod, b"listening", host["ports"])


def send_listeners(to: socket.socket, message: bytes, ports: Sequence[int]) -> None:
    """Send sockets that listen for these ports of this network's loopback."""
    listeners = [socket.create_server(("127.0.0.1", port), backlog=128) for port in ports]
    socket.send_fds(to, [message], [each.fileno() for each in listeners])
    for each in listeners:
        each.close()


def network_of(host: Host, pid: int, link: socket.socket, ports: int) -> list[int]:
    """Join the host's network to the pod's bridge; return so many sockets that listen in it."""
    if link.recv(16) == b"alone":
        namespaces.join_bridge(f"to-{host['name']}"[:_MAX_INTERFACE_NAME], pid)
        link.send(b"joined")
        _, descriptors, _, _ = socket.recv_fds(link, 16, ports)
        if descriptors:
            return descriptors
    raise ConnectionAbortedError(f"{host['name']}: the host ended before it had a network")


def _first_process(host: Host, visible: list[str]) -> int:
    namespaces.die_with_parent()
    try:
        _mount(host, [Path(path) for path in visible])
        namespaces.set_hostname(host["name"])
    except OSError as error:
        sys.stderr.write(f"The container could not be set up: {error}\n")
        return 125
    main = os.fork()
    if main == 0:
        namespaces.forgo_what_uncovers()
        _execute(host)
    return _wait_for(main, {signal.SIGTERM: _terminate_all})


def _terminate_all() -> None:
    """Send SIGTERM to every process of this host, as an init does that passes the signal on."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGTERM)


def run_plain(host: Host, _visible: list[str]) -> int:
    """Run the command without namespaces, in a process group that ends with this process."""
    _hold_signals()
    main = os.fork()
    if main == 0:
        namespaces.die_with_parent() if sys.platform == "linux" else None
        _execute(host)
    handlers: dict[int, Callable[[], None]] = {
        signal.SIGTERM: functools.partial(_signal_group, main, signal.SIGTERM),
        signal.SIGUSR1: functools.partial(_signal_group, main, signal.SIGKILL),
    }
    code = _wait_for(main, handlers)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(main, signal.SIGKILL)
    return code


def _signal_group(leader: int, number: signal.Signals) -> None:
    """Signal a child, not waited for yet, that leads a process group or will in a moment."""
    try:
        os.killpg(leader, number)
    # macOS refuses a group in which everything has ended
    except (ProcessLookupError, PermissionError):
        os.kill(leader, number)


def _wait_for(child: int, handlers: Mapping[int, Callable[[], None]]) -> int:
    """Call `handlers` for held signals until a child ends; return its exit code."""
    while True:
        number = signal.sigwait(_HELD)
        if number in handlers:
            handlers[number]()
        elif number == signal.SIGCHLD and (code := _reap(child)) is not None:
            return code


def _reap(child: int) -> int | None:
    """Return the exit code of `child` if it has ended; forget other children that have ended."""
    while (result := os.waitpid(-1, os.WNOHANG))[0]:
        pid, status = result
        if pid == child:
            return shell_code(status)
    return None


def shell_code(status: int) -> int:
    """Return a process's exit code as a shell has it: 128 + number after a signal."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _execute(host: Host) -> None:
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
        os.closerange(3, 256)
        os.chdir("/")
        os.execvpe(host["command"][0], host["command"], host["environment"])  # noqa: S606 (no shell wanted)
    except (OSError, ValueError) as error:  # of a zero byte, say, which SageMaker's API takes
        refusal = f"{host['command'][0]}: this machine cannot start it: {error}\n"
        os.write(2, refusal.encode(errors="backslashreplace"))
        os._exit(127)


def _mount(host: Host, visible: list[Path]) -> None:
    folder = Path(host["folder"])
    namespaces.make_mounts_private()
    namespaces.make_everything_read_only()
    _mount_opt(folder, host["read_only"])
    namespaces.bind(folder / "hosts", Path("/etc/hosts"))
    if (folder / "bin" / "sshd").exists():
        _mount_for_drivers(folder)
    # last of those that need `folder`, which may itself lie in /tmp
    _mount_tmp(folder / "tmp", visible)
    for path in map(Path, host["hidden"]):
        if path.is_dir():
            namespaces.mount("none", path, "tmpfs")
        elif path.exists():
            namespaces.bind(Path(os.devnull), path)
    namespaces.mount("none", Path("/dev/shm"), "tmpfs")  # noqa: S108 (the container's own)
    namespaces.mount("proc", Path("/proc"), "proc")


def _mount_opt(folder: Path, read_only: Mapping[str, str]) -> None:
    """Replace /opt by a copy made of mounts: /opt/ml needs no writing to the machine's own."""
    copy = folder / "opt"
    namespaces.mount("none", copy, "tmpfs")
    for entry in _OPT.iterdir():
        if entry.name in {"ml", "emulator"}:
            continue
        _show(entry, copy / entry.name)
    sources = {"ml": folder / "ml", "emulator": _INSIDE, "emulator-bin": folder / "bin"}
    for name, folder_of_host in sources.items():
        (copy / name).mkdir()
        namespaces.bind(folder_of_host, copy / name)
    namespaces.make_writable(copy / "ml")
    for place, source in read_only.items():
        target = copy / "ml" / place
        target.mkdir(parents=True, exist_ok=True)
        # as read-only as everything that was there before
        namespaces.bind(Path(source), target)
    namespaces.bind(copy, _OPT)


def _mount_for_drivers(folder: Path) -> None:
    """Show what the MPI driver of SageMaker's SDK v3 expects of an image: an /etc/environment that
    it can write, and /usr/sbin/sshd.

    The rest of /usr/sbin stays, as links: a mount cannot add a file to a folder.
    """
    if _ENVIRONMENT.is_file():
        namespaces.bind(folder / "environment", _ENVIRONMENT)
        namespaces.make_writable(_ENVIRONMENT)
    if _SBIN.is_symlink():  # to /usr/bin, which has the interpreter
        return
    copy = folder / "sbin"
    namespaces.mount("none", copy, "tmpfs")
    (copy / _MACHINE).mkdir()
    namespaces.bind(_SBIN, copy / _MACHINE)
    for entry in _SBIN.iterdir():
        link = entry.readlink() if entry.is_symlink() else _SBIN / _MACHINE / entry.name
        if entry.name != "sshd":
            (copy / entry.name).symlink_to(link)
    (copy / "sshd").symlink_to("/opt/emulator-bin/sshd")
    namespaces.bind(copy, _SBIN)


def _mount_tmp(folder: Path, visible: list[Path]) -> None:
    below_tmp = [path for path in visible if path.is_relative_to(_TMP)]
    namespaces.bind(folder, folder)
    namespaces.make_writable(folder)
    for path in below_tmp:
        _show(path, folder / path.relative_to(_TMP))
    namespaces.bind(folder, _TMP)


def _show(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        target.unlink(missing_ok=True)  # of an earlier start in the same folder
        target.symlink_to(source.readlink())
        return
    if source.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    namespaces.bind(source, target)
