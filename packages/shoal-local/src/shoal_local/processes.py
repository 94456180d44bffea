"""The child processes of an emulator, written down in its state directory, so that a crash leaves
none.

Every child that leads its own process group is registered by pid. `sweep` ends what a crashed
emulator left. A pid that the system has given to another program since is recognised by its start
time and left alone.
"""

import contextlib
import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GRACE_S = 2.0
POLL_S = 0.02

log = logging.getLogger(__name__)


def in_thread(name: str, work: Callable[..., object], *arguments: Any) -> threading.Thread:
    """Start work in a daemon thread, and return that."""
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    thread.start()
    return thread


def started_at(pid: int) -> str | None:
    """Return when the process `pid` began, as the system writes it; None when it does not exist or
    is a zombie.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _started_at_by_ps(pid)
    except (ProcessLookupError, PermissionError):
        return None
    return None if fields[0] in {"Z", "X"} else fields[19]


def _started_at_by_ps(pid: int) -> str | None:
    answer = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or None


def group_exists(process_group: int) -> bool:
    """Return whether any process of the group is left."""
    try:
        os.killpg(process_group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def end_group(process_group: int, grace_s: float = GRACE_S) -> None:
    """Send SIGTERM to the group, and SIGKILL after `grace_s`; return when the leader has ended and
    the rest was killed.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process_group, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while started_at(process_group) is not None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        os.killpg(process_group, signal.SIGKILL)


def end_processes_with(variable: str) -> None:
    """Kill what was started with `NAME=VALUE` in its environment, also in a session of its own.

    Where the system has no /proc, such processes are not found.
    """
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


@dataclass(frozen=True)
class ProcessRegistry:
    """The process groups of an emulator, one file each under `<state_dir>/processes/`."""

    state_dir: Path

    @property
    def _folder(self) -> Path:
        return self.state_dir / "processes"

    def register(self, pid: int, what: str) -> None:
        """Write down that `pid` leads a process group; `what` describes it for people."""
        self._folder.mkdir(parents=True, exist_ok=True)
        record = {"pid": pid, "started_at": started_at(pid), "what": what}
        temporary = self._folder / f".{pid}"
        temporary.write_text(json.dumps(record))
        temporary.replace(self._folder / f"{pid}.json")
        log.info("started: %s", what)

    def forget(self, pid: int) -> None:
        """Drop the group of `pid`, which has ended and was reaped."""
        (self._folder / f"{pid}.json").unlink(missing_ok=True)

    def alive(self) -> list[int]:
        """Return the registered pids whose process is still the registered one."""
        return [record["pid"] for record in self._records() if self._is_ours(record)]

    def sweep(self, grace_s: float = GRACE_S) -> list[int]:
        """End every group that is left, and return their pids."""
        pids = self.alive()
        for pid in pids:
            end_group(pid, grace_s)
        for record in self._records():
            self.forget(record["pid"])
        return pids

    def _records(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self._folder.glob("*.json"))]

    @staticmethod
    def _is_ours(record: dict[str, Any]) -> bool:
        now = started_at(record["pid"])
        # Without its leader, a group keeps its id as long as it has members.
        if now is None:
            return group_exists(record["pid"])
        return bool(now == record["started_at"])
