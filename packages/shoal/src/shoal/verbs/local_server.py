"""shoal-local as a child process: start it on a free port with a state directory, find it again
through that directory, stop it and check that nothing is left.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import urlsplit

from shoal.aws.target import Target, offline_environment
from shoal.errors import CommandError, LeftBehindError, NotFoundError
from shoal.launch.recipes import folder_of_all
from shoal.processes import Command, descendants, is_alive, start_detached, stop, tail_of
from shoal.processes import run as run_command

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0
_EXIT_TIMEOUT_S = 5.0
_BUILD_TIMEOUT_S = 1800.0
_POLL_S = 0.1
_DOWN_LOG = "emulator-down.log"


@dataclass(frozen=True)
class RunningServer:
    """A shoal-local that answers, as its state file describes it."""

    endpoint: str
    pid: int
    account: str
    region: str
    secret: str = field(repr=False)
    """The secret access key of its accounts' roots, which is new at each start."""
    cores: int
    """Number of the machine's cores that it may use."""
    enforces_iam: bool = False
    accounts: tuple[str, ...] = ()
    """Every account that it plays, `account` first."""
    hosting_speed: float = 1.0
    """How much faster than the clock deployments to endpoints wait and bake."""

    @property
    def notice(self) -> str | None:
        """Return a warning for the user when the machine limits what can be trained."""
        if self.cores > 1:
            return None
        return (
            "this machine has one core: each host shows one GPU, so one rank trains where two or"
            " more cores would give two or more"
        )

    @property
    def description(self) -> str:
        """Return the accounts and the region, for messages."""
        several = "s" if len(self.accounts) > 1 else ""
        return f"account{several} {', '.join(self.accounts)} in {self.region}"

    @property
    def target(self) -> Target:
        return self.target_of(self.account)

    def target_of(self, account: str) -> Target:
        """Return one of its accounts."""
        return Target(account, self.region, self.endpoint, secret=self.secret)


@dataclass
class LocalServer:
    """One shoal-local; `state` is its directory and is removed with it."""

    root: Path
    state: Path
    log: Path
    inherited: Mapping[str, str]

    @property
    def requests(self) -> Path:
        """Its log of requests, one JSON object a line."""
        return self.state / "requests.jsonl"

    def start(
        self,
        account: str,
        region: str,
        images: Mapping[str, str] | None = None,
        *,
        enforce_iam: bool = False,
        hosting_speed: float = 1.0,
        other_accounts: Sequence[str] = (),
    ) -> RunningServer:
        """Remove what a crash left, start the server in its own session, and wait until it answers.

        `images` maps patterns of the user's own images to runtimes. `other_accounts` are played in
        addition to `account`. Raises CommandError if the server does not answer in time.
        """
        self.sweep()
        self.state.mkdir(parents=True)
        arguments = ["serve", "--port", "0", "--state-dir", str(self.state), "--region", region]
        arguments += ["--hosting-speed", f"{hosting_speed:g}"]
        arguments += [f"--account={each}" for each in (account, *other_accounts)]
        arguments += [f"--image={each}={runtime}" for each, runtime in (images or {}).items()]
        arguments += ["--enforce-iam"] if enforce_iam else []
        arguments += ["--recipes", str(folder_of_all(self.root))]
        process = start_detached(self._command("emulator serve", arguments, _START_TIMEOUT_S))
        try:
            return self._wait_until_ready(process)
        except BaseException:
            stop(process)
            raise

    def find(self) -> RunningServer | None:
        """Return the server of this state directory, if it runs and answers."""
        with suppress(OSError, ValueError, KeyError):
            state = json.loads((self.state / "emulator.json").read_text())
            state |= {"secret": state["secret_access_key"], "accounts": tuple(state["accounts"])}
            running = RunningServer(
                **{each.name: state[each.name] for each in fields(RunningServer)}
            )
            return running if is_alive(running.pid) and port_answers(running.endpoint) else None
        return None

    def require(self) -> RunningServer:
        """Return the server of this state directory; raise NotFoundError if none runs."""
        running = self.find()
        if running is None:
            raise NotFoundError("no local emulator is running; start one with `shoal local up`")
        return running

    def shut_down(self) -> None:
        """Stop the server and remove its state.

        Raises LeftBehindError if a process, the port or the directory is still there afterwards.
        """
        running = self.find()
        processes = {running.pid, *descendants(running.pid)} if running else set()
        if self.state.exists():
            down, log = ("down", "--state-dir", str(self.state)), self.log.with_name(_DOWN_LOG)
            run_command(self._command("emulator down", down, _STOP_TIMEOUT_S, log))
        deadline = time.monotonic() + _EXIT_TIMEOUT_S
        while any(map(is_alive, processes)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        remains = [f"process {pid}" for pid in sorted(processes) if is_alive(pid)]
        if running and port_answers(running.endpoint):
            remains.append(f"port of {running.endpoint}")
        shutil.rmtree(self.state, ignore_errors=True)
        if self.state.exists():
            remains.append(f"directory {self.state}")
        if remains:
            raise LeftBehindError(f"the emulator left behind: {', '.join(remains)}")

    def sweep(self) -> None:
        """Remove what an earlier server that crashed left in the state directory."""
        if self.state.exists():
            self.shut_down()

    def _command(
        self, what: str, arguments: Sequence[str], timeout_s: float, log: Path | None = None
    ) -> Command:
        program = (sys.executable, "-m", "shoal_local", *arguments)
        variables = offline_environment(self.inherited) | {"PYTHONDONTWRITEBYTECODE": "1"}
        return Command(what, program, self.root, variables, log or self.log, timeout_s)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> RunningServer:
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
    """Build the virtual environment that stands in for the container images of `runtime`.

    Returns at once if it exists.
    """
    program = (sys.executable, "-m", "shoal_local", "runtime", "build", runtime)
    variables = {**inherited, "PYTHONUNBUFFERED": "1"}
    what = "emulator runtime build"
    run_command(Command(what, program, root, variables, log, _BUILD_TIMEOUT_S), on_line)


def port_answers(endpoint: str) -> bool:
    """Return whether something accepts connections at the endpoint's port."""
    with socket.socket() as probe:
        probe.settimeout(2.0)
        return probe.connect_ex(("127.0.0.1", urlsplit(endpoint).port or 80)) == os.EX_OK
