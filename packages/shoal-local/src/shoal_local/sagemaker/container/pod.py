"""Runs the hosts of one job in namespaces of their own:

`python -m shoal_local.sagemaker.container.pod SPEC CONTROL_FD`.

SPEC is the JSON that `launch.Pod` writes. Each host's output goes to its `output_fd`, exit codes go
to SPEC's `exit_codes` file.

A pod has its own network, so two jobs may both use torchrun's fixed port. With addresses in SPEC
each host has a network with that address, and the pod a bridge between them. Otherwise all hosts
share one with nothing but a loopback interface. In each of these networks SPEC's ports, of which
the emulator's is the first, are relayed, and nothing else can be reached. Each host has its own
mounts, hostname and process numbers.

Nothing survives the pod: its first process ends with its parent, and the kernel ends every process
whose namespace lost its first process.

CONTROL_FD carries `terminate` (SIGTERM to every process of every host) and `dial PORT` (answered
with a connected socket). When the other end is closed, the pod ends.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from shoal_local.sagemaker.container import host, namespaces

SETUP_FAILED = 125
"""Exit code of a host that could not be set up; Docker uses the same."""

Spec = dict[str, Any]


def main(arguments: list[str]) -> int:
    if attempt := _PROBES.get(arguments[0]):
        return probe(attempt)
    spec = json.loads(Path(arguments[0]).read_text())
    control = socket.socket(fileno=int(arguments[1]))
    if spec["isolation"] == "none":
        return run_hosts(spec, control)
    return in_namespaces(lambda: run_hosts(spec, control))


def probe(attempt: Callable[[], int]) -> int:
    """Return 0 if this machine permits `attempt`; else 1, and say on stderr what is refused."""
    try:
        return in_namespaces(attempt)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _mount_something() -> int:
    namespaces.mount("none", Path("/dev/shm"), "tmpfs")  # noqa: S108 (in its own namespace)
    return 0


def _join_two_networks() -> int:
    namespaces.make_bridge()
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        _leave(_wait_in_network_of_its_own, theirs)
    theirs.close()
    if ours.recv(16) == b"alone":
        namespaces.join_bridge("to-other", child)
        ours.send(b"joined")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _wait_in_network_of_its_own(parent: socket.socket) -> int:
    namespaces.unshare(namespaces.NEW_NETWORK)
    parent.send(b"alone")
    parent.recv(16)
    return 0


_PROBES = {"--probe": _mount_something, "--probe-networks": _join_two_networks}


def in_namespaces(work: Any) -> int:
    """Run `work` as the first process of new namespaces; return its exit code."""
    uid, gid = os.geteuid(), os.getegid()
    shared = (
        namespaces.NEW_MOUNTS | namespaces.NEW_NETWORK | namespaces.NEW_PIDS | namespaces.NEW_IPC
    )
    namespaces.unshare(shared | (namespaces.NEW_USERS if uid else 0))
    if uid:
        namespaces.become_root_of_new_users(uid, gid)
    child = os.fork()
    if child == 0:
        _leave(_first_process, work)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _first_process(work: Any) -> int:
    namespaces.die_with_parent()
    namespaces.make_mounts_private()
    namespaces.mount("proc", Path("/proc"), "proc")
    namespaces.bring_up("lo")
    return int(work())


def _leave(work: Any, *arguments: Any) -> NoReturn:
    """End a forked process with the result of `work`; never run the parent's code after it."""
    try:
        code = work(*arguments)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        code = SETUP_FAILED
    sys.stderr.flush()
    os._exit(code if 0 <= code < 256 else 128 - code)


def run_hosts(spec: Spec, control: socket.socket) -> int:
    """Start every host, and wait until all ended with 0 or the first ended otherwise.

    In the latter case the rest is killed. After `terminate` the first host has time to end: it runs
    rank 0, which writes the checkpoint.
    """
    hosts, terminating = _start_hosts(spec, control), threading.Event()
    threading.Thread(
        target=_follow_control,
        args=(control, list(hosts), spec["isolation"] == "none", terminating),
        daemon=True,
    ).start()
    codes: dict[str, int | None] = dict.fromkeys(hosts.values())
    main = spec["hosts"][0]["name"]
    while hosts and (not any(codes.values()) or (terminating.is_set() and main in hosts.values())):
        pid, status = os.waitpid(-1, 0)
        if pid in hosts:
            codes[hosts.pop(pid)] = host.shell_code(status)
    _write(Path(spec["exit_codes"]), codes)
    return 0


def _write(path: Path, codes: dict[str, int | None]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(codes))
    partial.replace(path)


def _start_hosts(spec: Spec, control: socket.socket) -> dict[int, str]:
    """Start every host, and send the emulator its listeners; return names by process."""
    if spec["isolation"] == "none":
        control.send(b"direct")
        return {_start_host(spec, each): each["name"] for each in spec["hosts"]}
    if all(each["address"] for each in spec["hosts"]):
        return _start_networked_hosts(spec, control)
    host.send_listeners(control, b"relay", spec["ports"])
    return {_start_host(spec, each): each["name"] for each in spec["hosts"]}


def _start_networked_hosts(spec: Spec, control: socket.socket) -> dict[int, str]:
    namespaces.make_bridge()
    hosts: dict[int, str] = {}
    listeners = []
    for each in spec["hosts"]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            pid = _start_host(spec, each | {"ports": spec["ports"]}, theirs)
            theirs.close()
            hosts[pid] = each["name"]
            listeners += host.network_of(each, pid, ours, len(spec["ports"]))
    socket.send_fds(control, [b"relay"], listeners)
    for listener in listeners:
        os.close(listener)
    return hosts


def _start_host(spec: Spec, each: Spec, link: socket.socket | None = None) -> int:
    child = os.fork()
    if child == 0:
        for descriptor in {other["output_fd"] for other in spec["hosts"]} - {each["output_fd"]}:
            os.close(descriptor)
        os.dup2(each["output_fd"], 1)
        os.dup2(each["output_fd"], 2)
        if spec["isolation"] == "none":
            _leave(host.run_plain, each, spec["visible"])
        _leave(host.run_isolated, each, spec["visible"], link)
    return child


def _follow_control(
    control: socket.socket, hosts: list[int], without_namespaces: bool, terminating: threading.Event
) -> None:
    while message := control.recv(64):
        if message == b"terminate":
            terminating.set()
            _signal(hosts, signal.SIGTERM)
        elif message.startswith(b"dial "):
            _dial(control, int(message.removeprefix(b"dial ")))
    if without_namespaces:
        _signal(hosts, signal.SIGUSR1)
    os._exit(128 + signal.SIGKILL)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _dial(control: socket.socket, port: int) -> None:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connected:
            connected.setblocking(True)
            socket.send_fds(control, [b"connected"], [connected.fileno()])
    except OSError as error:
        control.send(str(error).encode()[:60])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
