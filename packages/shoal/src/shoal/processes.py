"""Start and stop child processes: own process group, explicit environment, deadline, log file.

No other module of the product starts one.
"""

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from shoal.errors import AnswerError, CommandError, ToolMissingError

TAIL_LINES = 15
_GRACE_S = 10.0
_PROC = Path("/proc")


@dataclass(frozen=True)
class Command:
    """A program to run to its end."""

    what: str
    """A name for messages, such as `cdk deploy`."""
    arguments: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    log: Path
    """Gets everything that the program prints; overwritten."""
    timeout_s: float


def run(command: Command, on_line: Callable[[str], None] | None = None) -> None:
    """Run a command to its end, and call `on_line` with each line that it prints.

    Raises CommandError for an exit code other than 0 and at the deadline. Whatever is raised
    meanwhile (Ctrl-C too), the whole process group is gone afterwards.
    """
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    expired = threading.Event()
    command.log.parent.mkdir(parents=True, exist_ok=True)
    with command.log.open("w", encoding="utf-8", buffering=1) as log:
        process = _start(command, subprocess.PIPE)
        timer = threading.Timer(command.timeout_s, _expire, (process, expired))
        try:
            timer.start()
            for each in process.stdout or ():
                line = each.decode("utf-8", errors="replace").rstrip()
                log.write(line + "\n")
                tail.append(line)
                if on_line:
                    on_line(line)
            code = process.wait()
        finally:
            timer.cancel()
            stop(process)
            if process.stdout:
                process.stdout.close()
    if expired.is_set() or code:
        raise CommandError(
            command.what, None if expired.is_set() else code, tuple(tail), command.log
        )


def output_of(
    arguments: tuple[str, ...], cwd: Path, environment: Mapping[str, str], timeout_s: float
) -> str:
    """Run a program that answers at once, and return what it printed.

    Raises AnswerError with its complaint, or at the deadline. Raises ToolMissingError if it is not
    installed.
    """
    what = " ".join(arguments[:2])
    try:
        result = subprocess.run(
            arguments,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise ToolMissingError(f"{arguments[0]} is not installed, or not on PATH") from error
    except subprocess.TimeoutExpired as error:
        raise AnswerError(f"{what} did not end in {timeout_s:g} s and was stopped") from error
    if result.returncode:
        complaint = (result.stderr or result.stdout).decode(errors="replace").strip()
        raise AnswerError(f"{what} failed with exit code {result.returncode}: {complaint}")
    return result.stdout.decode(errors="surrogateescape")


def start_detached(command: Command) -> subprocess.Popen[bytes]:
    """Start a program that goes on by itself, with its output in `command.log`.

    `command.timeout_s` is for the caller's own wait.
    """
    command.log.parent.mkdir(parents=True, exist_ok=True)
    with command.log.open("wb") as log:
        return _start(command, log)


def _start(command: Command, output: int | IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command.arguments,
        cwd=command.cwd,
        env=dict(command.environment),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def stop(process: subprocess.Popen[bytes], grace_s: float = _GRACE_S) -> None:
    """Stop a process and its group: ask, wait `grace_s`, then kill what is left of the group."""
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def is_alive(pid: int) -> bool:
    """Return whether the process goes on; one that has ended may wait for its parent."""
    if _PROC.exists():
        with suppress(OSError):
            return _stat(pid)[0] not in {"Z", "X"}
        return False
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _stat(pid: int) -> list[str]:
    """Return what /proc says of a process: its state, its parent's id, and so on."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def tail_of(log: Path) -> tuple[str, ...]:
    """Return the last lines of a log file; none if there is no such file."""
    if not log.is_file():
        return ()
    return tuple(log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:])


def descendants(ancestor: int) -> tuple[int, ...]:
    """Return the ids of the process's children, their children, and so on, as they are now."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    pids, queue = [], [ancestor]
    while queue:
        queue += (more := children.get(queue.pop(), []))
        pids += more
    return tuple(pids)


def _parents() -> Iterator[tuple[int, int]]:
    """Yield every process's id and its parent's."""
    if not _PROC.exists():
        listing = subprocess.check_output(["ps", "-axo", "pid=,ppid="], text=True)
        for line in listing.splitlines():
            pid, parent = map(int, line.split())
            yield pid, parent
    for process in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            yield int(process.name), int(_stat(int(process.name))[1])


def _expire(process: subprocess.Popen[bytes], expired: threading.Event) -> None:
    expired.set()
    _signal_group(process.pid, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
