"""`shoal demo --gitops`: the life of three releases in three emulated accounts, from a commit to a canary, a rollback and a revert.

Every step is the command that a user would type, run in a git repository of its own; what was typed and answered is in transcript.txt.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cli.broken_release import register_broken
from cli.demo import only_one
from cli.emulator_process import EmulatorProcess, Running, build_runtimes, port_answers
from cli.gitops_checkout import ENVIRONMENTS, GitCheckout
from cli.gitops_report import LOGS, TRANSCRIPT, Canary, Facts, Rollback, clear, write_summary
from cli.traffic import Traffic
from cli.workspace import Workspace
from config.loader import load_environment
from config.names import Names
from config.release import Release
from config.settings import Environment
from lifecycle import dataset, inventory
from lifecycle.errors import CommandError, LeftBehindError, LifecycleError, NotFoundError
from lifecycle.events import Detail, Note, Report
from lifecycle.flow import Outcome, Phase, run_phases
from lifecycle.processes import Command, mentioning, run
from lifecycle.target import Target, offline_environment
from lifecycle.teardown import remove_bootstrap

HOSTING_SPEED = 30
"""How much faster than the clock deployments to endpoints wait: five minutes of baking are ten seconds."""
TRAINING = ("Epochs=1", "MinAccuracy=0.9")
_COMMAND_TIMEOUT_S = 600.0
_ROLLED_BACK, _DEPLOYMENT = "rolled back", "The deployment of "


@dataclass
class GitOps:
    """The state that the phases share."""

    workspace: Workspace
    output: Path
    report: Report
    enforce_iam: bool
    facts: Facts = field(default_factory=Facts)
    running: Running | None = None
    checkout: GitCheckout | None = None
    commands: int = 0
    merged: dict[str, str] = field(default_factory=dict)
    """Environment -> commit of the last merge that changed its release."""

    @property
    def folder(self) -> Path:
        return gitops_folder(self.workspace)

    @property
    def logs(self) -> Path:
        return self.output / LOGS

    @property
    def emulator(self) -> EmulatorProcess:
        return EmulatorProcess(self.workspace.root, self.folder / "emulator", self.logs / "emulator-output.log", self.workspace.environ)

    @property
    def repository(self) -> GitCheckout:
        if self.checkout is None:
            raise NotFoundError("the repository was not made")
        return self.checkout

    def environment(self, name: str) -> Environment:
        """As the demonstration's repository has it now, or, before there is one, the project."""
        return load_environment(name, self.checkout.root if self.checkout else self.workspace.root)

    def target(self, name: str) -> Target:
        """The environment's account in the emulator."""
        if self.running is None:
            raise NotFoundError("the emulator did not start")
        environment = self.environment(name)
        return Target(environment.account, environment.region, self.running.endpoint)

    def release(self, name: str) -> Release:
        """What the environment pins."""
        pinned = self.environment(name).release
        if pinned is None or pinned.weights_sha256 is None:
            raise NotFoundError(f"{name} pins no release with the hash of its weights")
        return pinned

    def weights(self, name: str) -> str:
        return str(self.release(name).weights_sha256)

    def shoal(self, *arguments: str) -> str:
        """Runs the command in the repository and returns what it printed. Raises CommandError unless it ends with 0."""
        self.commands += 1
        log = self.logs / f"{self.commands:02}-{'-'.join(each for each in arguments[:3] if each.isalnum())}.log"
        command = (sys.executable, "-m", "cli", "--root", str(self.repository.root), *arguments)
        variables = offline_environment(self.repository.environment) | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        self.report(Note(f"$ shoal {' '.join(arguments)}"))
        try:
            what = f"shoal {arguments[0]}"
            run(
                Command(what, command, self.workspace.root, variables, log, _COMMAND_TIMEOUT_S),
                lambda line: self.report(Detail(line)),
            )
        finally:
            said = log.read_text(encoding="utf-8") if log.is_file() else ""
            self._write(f"$ shoal {' '.join(arguments)}\n{said}")
        return said

    def git(self, told: str, work: Callable[[GitCheckout], str]) -> str:
        """A step of git's; returns the commit."""
        commit = work(self.repository)
        self.report(Note(f"$ git {told}: {commit[:12]}"))
        self._write(f"$ git {told}\n{self.repository.git('log', '--oneline', '-1')}\n")
        self.facts.commits.append({"what": told, "id": commit})
        return commit

    def _write(self, text: str) -> None:
        with (self.output / TRANSCRIPT).open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def run_gitops(workspace: Workspace, output: Path, report: Report, shield: Callable[[], None], *, enforce_iam: bool) -> Outcome:
    """Runs the whole and cleans up, whatever happens; writes the report; returns how it went."""
    dataset.verify(workspace.root / dataset.FOLDER)
    with only_one(gitops_folder(workspace)):
        clear(output)
        state = GitOps(workspace, output, report, enforce_iam)
        started_at = time.monotonic()
        outcome = run_phases(PHASES, state, report, shield)
        outcome.seconds["total"] = time.monotonic() - started_at
    state.facts.files_left = [str(folder) for folder in [gitops_folder(workspace)] if folder.exists()]
    write_summary(state.facts, outcome, output)
    return outcome


def gitops_folder(workspace: Workspace) -> Path:
    """Where the demonstration keeps its repositories and its emulator; fixed, so that the next one cleans up after one that was killed."""
    return workspace.root / ".shoal" / "gitops"


def _build_runtimes(state: GitOps) -> None:
    log = state.logs / "runtimes.log"
    build_runtimes(state.workspace.root, state.workspace.environ, "pytorch", log, lambda line: state.report(Detail(line)))


def _start_emulator(state: GitOps) -> None:
    environments = [state.environment(name) for name in ENVIRONMENTS]
    accounts, region = [each.account for each in environments], environments[0].region
    start = state.emulator.start
    state.running = start(accounts[0], region, enforce_iam=state.enforce_iam, hosting_speed=HOSTING_SPEED, others=accounts[1:])
    state.facts.accounts = dict(zip(ENVIRONMENTS, accounts, strict=True))
    state.report(Note(f"the emulator answers at {state.running.endpoint} as the accounts {', '.join(accounts)}"))


def _stop_emulator(state: GitOps) -> None:
    for name in ("emulator.log", "requests.jsonl"):
        for found in state.emulator.state.rglob(name):
            shutil.copy(found, state.logs / f"{'-'.join(found.relative_to(state.emulator.state).parts)}")
    state.emulator.sweep()
    running = state.running
    left = [f"process {pid}" for pid in mentioning(str(state.folder))]
    left += [f"port of {running.endpoint}"] if running and port_answers(running.endpoint) else []
    state.facts.processes_left = left
    if left:
        raise LeftBehindError(f"still there: {', '.join(left)}")


def _look_before(state: GitOps) -> None:
    if found := _everything(state):
        raise LeftBehindError(f"new accounts should be empty, but have {', '.join(found)}")


def _look_after(state: GitOps) -> None:
    state.facts.left_behind = _everything(state)
    if state.facts.left_behind:
        raise LeftBehindError(f"still there after everything was removed: {', '.join(state.facts.left_behind)}")


def _everything(state: GitOps) -> list[str]:
    """What there is of the project in the three accounts, whichever environment it belongs to."""
    project = state.environment("dev").project
    owner = inventory.Owner(f"shoal-{project}", tags=(("shoal:project", project),))
    found = []
    for name in ENVIRONMENTS:
        target = state.target(name)
        there = (*inventory.of_environment(target, owner), *inventory.of_bootstrap(target))
        found += [f"{resource} in account {target.account}" for resource in there]
    return found


def _make_repository(state: GitOps) -> None:
    shutil.rmtree(state.folder / "git", ignore_errors=True)
    state.checkout = GitCheckout.new(state.folder / "git", state.workspace.root, state.workspace.environ, state.emulator.state)
    state.facts.commits.append({"what": "begin", "id": state.checkout.head()})


def _remove_bootstraps(state: GitOps) -> None:
    for name in ENVIRONMENTS:
        remove_bootstrap(state.target(name))


def _deploy_dev(state: GitOps) -> None:
    state.shoal("deploy", "dev", "--local")
    state.shoal("data", "upload", "dev", "--local")


def _destroy(name: str) -> Callable[[GitOps], None]:
    def destroy(state: GitOps) -> None:
        state.shoal("destroy", name, "--local")

    return destroy


def _train(seed: int) -> Callable[[GitOps], None]:
    def train(state: GitOps) -> None:
        parameters = [part for each in (*TRAINING, f"Seed={seed}") for part in ("--parameter", each)]
        state.shoal("run", "dev", "--local", "--follow", *parameters)
        state.shoal("approve", "dev", "--local", "--comment", "accuracy as expected")

    return train


def _promote(state: GitOps, source: str, destination: str) -> None:
    """The commit, pushed and merged as a pull request would be."""
    said = state.shoal("promote", "--from", source, "--to", destination, "--push", "origin", "--local")
    (branch,) = (line.split()[1].rstrip(",") for line in said.splitlines() if line.startswith("branch "))
    state.merged[destination] = state.git(f"merge {branch}", lambda repository: repository.merge(branch))


def _release_to_staging(state: GitOps) -> None:
    _promote(state, "dev", "staging")
    state.shoal("deploy", "staging", "--local")
    _require_serving(state, "staging", state.weights("staging"))


def _first_to_prod(state: GitOps) -> None:
    _promote(state, "staging", "prod")
    state.shoal("deploy", "prod", "--local")
    _require_serving(state, "prod", state.weights("prod"))
    _require_no_drift(state, "prod")


def _canary(state: GitOps) -> None:
    """The second release, while somebody asks the endpoint: both must have answered, side by side."""
    old = state.weights("prod")
    _promote(state, "staging", "prod")
    new = state.weights("prod")
    with _traffic(state) as traffic:
        state.shoal("deploy", "prod", "--local")
    state.facts.canary = Canary(old, new, traffic.by_weights[old], traffic.by_weights[new], traffic.served_side_by_side(old, new))
    if traffic.problems or not state.facts.canary.side_by_side:
        raise LifecycleError(f"the canary was not seen: {state.facts.canary}, problems: {traffic.problems[:3]}")
    _require_serving(state, "prod", new)


def _approve_broken(state: GitOps) -> None:
    """A version with the first release's weights and code that fails after some answers, registered and approved by hand."""
    first = f"{state.release('prod').model_package_arn.rpartition('/')[0]}/1"
    state.facts.broken = register_broken(state.target("dev"), first)
    state.report(Note(f"registered by hand: {state.facts.broken}"))
    state.shoal("approve", "dev", state.facts.broken.rpartition("/")[2], "--local", "--comment", "it is Friday")


def _roll_back(state: GitOps) -> None:
    """The broken release to prod, under traffic: the deployment must fail, and the release before it must answer."""
    serving = state.weights("prod")
    _promote(state, "staging", "prod")
    broken = state.weights("prod")
    if broken == serving:
        raise LifecycleError("the broken release has the weights of the one before: no hash would tell which of the two answers")
    with _traffic(state) as traffic:
        try:
            state.shoal("deploy", "prod", "--local")
        except CommandError as error:
            said = str(error)
        else:
            raise LifecycleError("the broken release was deployed, and nothing rolled it back")
    log = max(state.logs.glob("*-deploy-prod*.log"), key=lambda path: path.stat().st_mtime).read_text(encoding="utf-8")
    reasons = [line.strip() for line in log.splitlines() if _ROLLED_BACK in line.lower()]
    if not reasons:
        raise LifecycleError(f"the deployment failed for another reason: {said}")
    answers = traffic.by_weights
    reason = reasons[0][reasons[0].find(_DEPLOYMENT) :] if _DEPLOYMENT in reasons[0] else reasons[0]
    state.facts.rollback = Rollback(reason, serving, answers[serving], broken, answers[broken], len(traffic.problems))
    _require_serving(state, "prod", serving)


def _revert(state: GitOps) -> None:
    """Git says again what prod serves."""
    state.git("revert", lambda repository: repository.revert(state.merged["prod"]))
    state.shoal("deploy", "prod", "--local")
    _require_serving(state, "prod", state.weights("prod"))
    _require_no_drift(state, "prod")


def _traffic(state: GitOps) -> Traffic:
    folder = state.workspace.root / dataset.FOLDER
    digits = tuple(dataset.read_digit(folder, number) for number in range(10))
    return Traffic(state.target("prod"), Names(state.environment("prod")).serving_endpoint, digits)


def _require_serving(state: GitOps, name: str, weights: str) -> None:
    """The endpoint answers, with the weights that are meant."""
    endpoint = Names(state.environment(name)).serving_endpoint
    answer = json.loads(state.shoal("invoke", name, "--local", "--digit", "7", "--endpoint", endpoint))
    found = answer["model"].get("weights_sha256")
    if found != weights:
        raise LifecycleError(f"{endpoint} answers with the weights {found}, not {weights}")
    state.facts.served.append({"environment": name, "weights_sha256": weights, "digit": answer["digit"], "label": answer["label"]})


def _require_no_drift(state: GitOps, name: str) -> None:
    state.shoal("drift", name, "--local")
    state.facts.without_drift.append(name)


PHASES: tuple[Phase[GitOps], ...] = (
    Phase("runtimes", _build_runtimes),
    Phase("emulator", _start_emulator, _stop_emulator, "stop emulator"),
    Phase("look before", _look_before, _look_after, "look after"),
    Phase("repository", _make_repository),
    Phase("accounts", None, _remove_bootstraps, "remove bootstraps"),
    Phase("dev: deploy", _deploy_dev, _destroy("dev"), "dev: destroy"),
    Phase("dev: train release 1", _train(1)),
    Phase("staging: release 1", _release_to_staging, _destroy("staging"), "staging: destroy"),
    Phase("prod: release 1", _first_to_prod, _destroy("prod"), "prod: destroy"),
    Phase("dev: train release 2", _train(2)),
    Phase("staging: release 2", _release_to_staging),
    Phase("prod: release 2 by canary", _canary),
    Phase("dev: a broken release 3", _approve_broken),
    Phase("staging: release 3", _release_to_staging),
    Phase("prod: release 3 is rolled back", _roll_back),
    Phase("prod: revert", _revert),
)
"""What was begun is undone in reverse order: prod, staging, dev, the bootstraps, a look at all accounts, the emulator."""
