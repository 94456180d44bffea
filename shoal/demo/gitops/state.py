"""The state that the phases of `shoal demo --gitops` share, and how they call `shoal` and git."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from config.loader import load_environment, load_workloads
from config.release import Release
from config.settings import Environment
from shoal.demo.gitops.checkout import MAIN, GitCheckout
from shoal.demo.gitops.report import LOGS, TRANSCRIPT, Facts
from shoal.verbs.errors import NotFoundError
from shoal.verbs.events import Detail, Note, Report
from shoal.verbs.local_server import LocalServer, RunningServer
from shoal.verbs.processes import Command, run
from shoal.verbs.target import Target, offline_environment
from shoal.verbs.workspace import Workspace

_COMMAND_TIMEOUT_S = 600.0


@dataclass
class GitOps:
    """The state that the phases share."""

    workspace: Workspace
    output: Path
    report: Report
    enforce_iam: bool
    facts: Facts = field(default_factory=Facts)
    second_workload: str | None = None
    """A workload that every environment has in addition to the one of the story."""
    running: RunningServer | None = None
    checkout: GitCheckout | None = None
    commands: int = 0
    deployed: list[str] = field(default_factory=list)
    """Environments whose deployment has begun."""
    merged: dict[str, str] = field(default_factory=dict)
    """Commit of the last merge that changed its release, by environment."""
    _lock: Lock = field(default_factory=Lock)
    """Protects what commands change that run at the same time."""

    @property
    def folder(self) -> Path:
        return gitops_folder(self.workspace)

    @property
    def logs(self) -> Path:
        return self.output / LOGS

    @property
    def local_server(self) -> LocalServer:
        return LocalServer(
            self.workspace.root,
            self.folder / "emulator",
            self.logs / "emulator-output.log",
            self.workspace.environ,
        )

    @property
    def repository(self) -> GitCheckout:
        if self.checkout is None:
            raise NotFoundError("the repository was not made")
        return self.checkout

    def environment(self, name: str) -> Environment:
        """Return an environment of the demonstration's repository, or before there is one, the
        project's.
        """
        if self.checkout is None:
            return load_workloads(name, self.workspace.root)[0]
        workload = MAIN if self.second_workload else None
        return load_environment(name, self.checkout.root, workload=workload)

    def words(self, name: str) -> tuple[str, ...]:
        """Return the words that name the environment and, where it has two, the workload of the
        story.
        """
        return (name, MAIN) if self.second_workload else (name,)

    def target(self, name: str) -> Target:
        """Return the environment's account in shoal-local."""
        if self.running is None:
            raise NotFoundError("the emulator did not start")
        return self.running.target_of(self.environment(name).account)

    def release(self, name: str) -> Release:
        """Return the release that the environment pins."""
        pinned = self.environment(name).release
        if pinned is None:
            raise NotFoundError(f"{name} pins no release")
        return pinned

    def content(self, name: str) -> str:
        return self.release(name).content_sha256

    def shoal(self, *arguments: str) -> str:
        """Run the command in the repository and return what it printed.

        Raises CommandError unless it ends with 0.
        """
        log = self._next_log(arguments)
        command = (
            sys.executable,
            "-m",
            "shoal.cli",
            "--root",
            str(self.repository.root),
            *arguments,
        )
        variables = offline_environment(self.repository.environment) | {
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        self.report(Note(f"$ shoal {' '.join(arguments)}"))
        try:
            what = f"shoal {arguments[0]}"
            run(
                Command(what, command, self.workspace.root, variables, log, _COMMAND_TIMEOUT_S),
                lambda line: self.report(Detail(line)),
            )
        finally:
            output = log.read_text(encoding="utf-8") if log.is_file() else ""
            self._write(f"$ shoal {' '.join(arguments)}\n{output}")
        return output

    def git(self, command: str, work: Callable[[GitCheckout], str]) -> str:
        """Do one step of git's, note `command` in the transcript, and return the commit."""
        commit = work(self.repository)
        self.report(Note(f"$ git {command}: {commit[:12]}"))
        self._write(f"$ git {command}\n{self.repository.git('log', '--oneline', '-1')}\n")
        self.facts.commits.append({"what": command, "id": commit})
        return commit

    def _next_log(self, arguments: tuple[str, ...]) -> Path:
        with self._lock:
            self.commands += 1
            words = "-".join(word for word in arguments[:3] if word.isalnum())
            return self.logs / f"{self.commands:02}-{words}.log"

    def _write(self, text: str) -> None:
        with self._lock, (self.output / TRANSCRIPT).open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def gitops_folder(workspace: Workspace) -> Path:
    """Return the folder of the demonstration's repositories and shoal-local.

    It is fixed, so that the next run cleans up after one that was killed.
    """
    return workspace.root / ".shoal" / "gitops"
