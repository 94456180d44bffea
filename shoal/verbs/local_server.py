"""The emulator as a child process: started on a free port with a state directory, found again
through it, stopped and checked.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from shoal.verbs.errors import CommandError, LeftBehindError, NotFoundError
from shoal.verbs.processes import Command, descendants, is_alive, start_detached, stop, tail_of
from shoal.verbs.processes import run as run_command
from shoal.verbs.target import Target, offline_environment

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0
_EXIT_TIMEOUT_S = 5.0
_BUILD_TIMEOUT_S = 1800.0
_POLL_S = 0.1


@dataclass(frozen=True)
class Running:
    """An emulator that answers."""

    endpoint: str
    pid: int
    account: str
    region: str
    cores: int
    """Of the machine, that it may use."""
    enforces_iam: bool = False
    accounts: tuple[str, ...] = ()
    """Every account that it plays, `account` first."""
    hosting_speed: float = 1.0
    """How much faster than the clock deployments to endpoints wait and bake."""

    @property
    def notice(self) -> str | None:
        """What the user should know of its machine."""
        if self.cores > 1:
            return None
        return (
            "this machine has one core: each host shows one GPU, so one rank trains where two or"
            " more cores would give two or more"
        )

    @property
    def played(self) -> str:
        """For messages: which accounts where."""
        return (
            f"account{'s' if len(self.accounts) > 1 else ''} {', '.join(self.accounts)} in"
            f" {self.region}"
        )

    @property
    def target(self) -> Target:
        return Target(self.account, self.region, self.endpoint)


@dataclass
class EmulatorProcess:
    """One emulator; `state` is its directory and is removed with it."""

    root: Path
    state: Path
    log: Path
    inherited: Mapping[str, str]

    def start(
        self,
        account: str,
        region: str,
        images: Mapping[str, str] | None = None,
        *,
        enforce_iam: bool = False,
        hosting_speed: float = 1.0,
        others: Sequence[str] = (),
    ) -> Running:
        """Removes what a crash left, starts it in its own session, and returns when it answers.

        Raises CommandError if it does not.

        `images`: runtimes by patterns of the user's own images; `others`: accounts beside the
        first.
        """
        self.sweep()
        self.state.mkdir(parents=True)
        accounts = tuple(part for each in (account, *others) for part in ("--account", each))
        options = ("--port", "0", "--state-dir", str(self.state), *accounts, "--region", region)
        own = tuple(
            part
            for pattern, runtime in (images or {}).items()
            for part in ("--image", f"{pattern}={runtime}")
        )
        arguments = (
            "serve",
            *options,
            "--hosting-speed",
            f"{hosting_speed:g}",
            *own,
            *(("--enforce-iam",) if enforce_iam else ()),
        )
        process = start_detached(self._command("emulator serve", arguments, _START_TIMEOUT_S))
        try:
            running = self._wait_until_ready(process)
        except BaseException:
            stop(process)
            raise
        return running

    def find(self) -> Running | None:
        """The emulator of this state directory, if it runs and answers."""
        with suppress(OSError, ValueError, KeyError):
            told = json.loads((self.state / "emulator.json").read_text())
            shown = {
                name: told[name]
                for name in (
                    "endpoint",
                    "pid",
                    "account",
                    "region",
                    "cores",
                    "enforces_iam",
                    "hosting_speed",
                )
            }
            running = Running(**shown, accounts=tuple(told["accounts"]))
            return running if is_alive(running.pid) and port_answers(running.endpoint) else None
        return None

    def require(self) -> Running:
        """The emulator of this state directory. Raises NotFoundError if none runs."""
        running = self.find()
        if running is None:
            raise NotFoundError("no local emulator is running; start one with `shoal local up`")
        return running

    def shut_down(self) -> None:
        """Stops it and removes its state.

        Raises LeftBehindError if a process, the port or the directory is still there then.
        """
        running = self.find()
        processes = {running.pid, *descendants(running.pid)} if running else set()
        if self.state.exists():
            down = ("down", "--state-dir", str(self.state))
            run_command(
                self._command(
                    "emulator down", down, _STOP_TIMEOUT_S, self.log.with_name("emulator-down.log")
                )
            )
        left = self._left(running, processes)
        shutil.rmtree(self.state, ignore_errors=True)
        if self.state.exists():
            left.append(f"directory {self.state}")
        if left:
            raise LeftBehindError(f"the emulator left behind: {', '.join(left)}")

    def sweep(self) -> None:
        """Removes what an earlier emulator that crashed left in the state directory."""
        if self.state.exists():
            self.shut_down()

    def _left(self, running: Running | None, processes: set[int]) -> list[str]:
        deadline = time.monotonic() + _EXIT_TIMEOUT_S
        while any(map(is_alive, processes)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        left = [f"process {pid}" for pid in sorted(processes) if is_alive(pid)]
        if running and port_answers(running.endpoint):
            left.append(f"port of {running.endpoint}")
        return left

    def _command(
        self, what: str, arguments: tuple[str, ...], timeout_s: float, log: Path | None = None
    ) -> Command:
        variables = offline_environment(self.inherited) | {"PYTHONDONTWRITEBYTECODE": "1"}
        return Command(
            what,
            (sys.executable, "-m", "shoal_local", *arguments),
            self.root,
            variables,
            log or self.log,
            timeout_s,
        )

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> Running:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise CommandError("the emulator", process.returncode, tail_of(self.log), self.log)
            running = self.find()
            if running and running.pid == process.pid:
                return running
            time.sleep(_POLL_S)
        raise CommandError("the emulator's start", None, tail_of(self.log), self.log)


def build_runtimes(
    root: Path,
    inherited: Mapping[str, str],
    runtime: str,
    log: Path,
    on_line: Callable[[str], None],
) -> None:
    """Builds what stands in for the container images of `runtime`; returns at once if it is
    there.
    """
    command = (sys.executable, "-m", "shoal_local", "runtime", "build", runtime)
    run_command(
        Command(
            "emulator runtime build",
            command,
            root,
            {**inherited, "PYTHONUNBUFFERED": "1"},
            log,
            _BUILD_TIMEOUT_S,
        ),
        on_line,
    )


def port_answers(endpoint: str) -> bool:
    """Whether something accepts connections at the endpoint's port."""
    with socket.socket() as probe:
        probe.settimeout(2.0)
        return probe.connect_ex(("127.0.0.1", urlsplit(endpoint).port or 80)) == os.EX_OK
