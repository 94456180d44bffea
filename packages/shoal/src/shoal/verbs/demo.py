"""`shoal demo`: the verbs in a row, from an empty shoal-local through a training to an empty one.

The page of the run, its run.json, summary.json and the logs go to `demo-out/`.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from shoal.aws import inventory
from shoal.aws.cdk import Cdk
from shoal.aws.events import Detail, Note, Report
from shoal.aws.execution import Pipeline
from shoal.aws.inventory import Owner, Resource
from shoal.aws.target import Target
from shoal.errors import LeftBehindError, NotFoundError, UsageError, refusal
from shoal.page.history import json_of, with_others
from shoal.page.page import page
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.settings import Environment
from shoal.verbs import dataset
from shoal.verbs.destroy.teardown import Teardown, refuse_if_protected, remove_bootstrap
from shoal.verbs.doctor.image import refuse_built_image
from shoal.verbs.flow import Failure, Outcome, Phase, run_phases
from shoal.verbs.follow import Follower, plan_of
from shoal.verbs.local_server import LocalServer, RunningServer, build_runtimes
from shoal.verbs.parameters import check_declared, check_values
from shoal.verbs.workspace import LOCAL_POLL_S, Session, Workspace

SUMMARY, RUN, PAGE, LOGS = "summary.json", "run.json", "index.html", "logs"


@dataclass(frozen=True)
class Choice:
    """The user's options."""

    environment: str
    strategy: str | None = None
    """An overlay in environments/strategies/; None for the environment as it is."""
    parameters: dict[str, str] = field(default_factory=dict)
    """Pipeline parameters."""
    enforce_iam: bool = False
    """Whether shoal-local applies the policies of the roles."""
    workload: str | None = None
    """Which one to train, where the environment has several; the others are not deployed."""


@dataclass
class Demo:
    """The state that the phases share."""

    workspace: Workspace
    choice: Choice
    environment: Environment
    output: Path
    report: Report
    running: RunningServer | None = None
    arn: str | None = None
    """Of the execution, once it is started."""
    created: set[Resource] = field(default_factory=set)
    left_behind: tuple[Resource, ...] | None = None
    """None: it was not possible to look."""

    @property
    def names(self) -> Names:
        return Names(self.environment)

    @property
    def all_names(self) -> Names:
        """Of the whole environment: what its workloads share is the demo's, too."""
        return self.names.shared if self.environment.workloads else self.names

    @property
    def folder(self) -> Path:
        """The folder in use while a demo runs: fixed, so that the next one cleans up after one that
        was killed.
        """
        return self.workspace.root / ".shoal" / "demo"

    @property
    def logs(self) -> Path:
        return self.output / LOGS

    @property
    def local_server(self) -> LocalServer:
        log = self.logs / "emulator-output.log"
        return LocalServer(
            self.workspace.root, self.folder / "emulator", log, self.workspace.environ
        )

    @property
    def target(self) -> Target:
        if self.running is None:
            raise NotFoundError("the emulator did not start")
        return self.running.target

    @property
    def session(self) -> Session:
        return Session(self.workspace, self.environment, self.target)

    @property
    def cdk(self) -> Cdk:
        return self.workspace.cdk(
            self.folder / "cdk.out", self.logs, self.folder / "tmp", self.report
        )

    def resources(self) -> tuple[Resource, ...]:
        """Return all that is in the account and is the demo's."""
        ids = (self.arn.rpartition("/")[2],) if self.arn else ()
        owner = Owner.of(self.all_names, ids, workloads=[self.names])
        return (
            *inventory.of_environment(self.target, owner),
            *inventory.of_bootstrap(self.target),
        )


def run_demo(
    workspace: Workspace, choice: Choice, output: Path, report: Report, shield: Callable[[], None]
) -> Outcome:
    """Run all phases and clean up, whatever happens; write the summary; return the outcome.

    Raises ConfigError and UsageError, before anything is started, for what cannot work.
    """
    environment = load_environment(
        choice.environment, workspace.root, choice.strategy, choice.workload
    )
    refuse_if_protected(environment)
    refuse_built_image(environment)
    dataset.require(environment, workspace.root)
    check_declared(environment, choice.parameters, workspace.root)
    check_values(environment, choice.parameters, workspace.root)
    demo = Demo(workspace, choice, environment, output, report)
    with _exclusive(demo.folder):
        _clear(output)
        started_at = time.monotonic()
        outcome = run_phases(PHASES, demo, report, shield)
        outcome.seconds["total"] = time.monotonic() - started_at
        _write_summary(demo, outcome)
    return outcome


def message_of(failure: Failure) -> str:
    """Return what failed, for people."""
    return refusal(failure.error) if isinstance(failure.error, Exception) else "interrupted"


def read_json(file: Path) -> dict[str, Any] | None:
    """Return what a file of the output has; None if the demo did not get as far."""
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Lock the folder against a second demo in the same checkout, and remove it at the end.

    Raises UsageError if a demo runs already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError("a demo is running in this checkout already") from None
        try:
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _clear(output: Path) -> None:
    """Remove what an earlier demo wrote, and nothing else in the folder."""
    output.mkdir(parents=True, exist_ok=True)
    for name in (SUMMARY, RUN, PAGE):
        (output / name).unlink(missing_ok=True)
    shutil.rmtree(output / LOGS, ignore_errors=True)
    (output / LOGS).mkdir()


def _write_summary(demo: Demo, outcome: Outcome) -> None:
    """Write summary.json; the status is Succeeded only if every phase and clean-up went well."""
    status = "Failed" if outcome.failures else "Succeeded"
    left = demo.left_behind
    summary = {
        "status": "Interrupted" if outcome.interrupted else status,
        "strategy": demo.choice.strategy or demo.environment.training.strategy,
        "failures": [
            {"phase": failure.phase, "message": message_of(failure)} for failure in outcome.failures
        ],
        "created": [asdict(each) for each in sorted(demo.created)],
        "left_behind": None if left is None else [asdict(each) for each in left],
        "seconds": {name: round(seconds, 2) for name, seconds in outcome.seconds.items()},
    }
    text = json.dumps(summary, indent=2) + "\n"
    (demo.output / SUMMARY).write_text(text, encoding="utf-8")


def _build_runtimes(demo: Demo) -> None:
    runtime = demo.environment.training.framework  # a runtime is named after its framework
    log, workspace = demo.logs / "runtimes.log", demo.workspace
    build_runtimes(
        workspace.root, workspace.environ, runtime, log, lambda line: demo.report(Detail(line))
    )


def _start_local_server(demo: Demo) -> None:
    environment = demo.environment
    demo.running = running = demo.local_server.start(
        environment.account,
        environment.region,
        environment.local.images,
        enforce_iam=demo.choice.enforce_iam,
    )
    policies = ", and enforces the roles' policies" if running.enforces_iam else ""
    where = f"answers at {demo.target.endpoint_url} as account {environment.account}"
    demo.report(Note(f"the emulator {where}{policies}"))
    if running.notice:
        demo.report(Note(running.notice))


def _stop_local_server(demo: Demo) -> None:
    for name, copy_name in (
        ("emulator.log", "emulator.log"),
        ("requests.jsonl", "emulator-requests.jsonl"),
    ):
        if (demo.local_server.state / name).is_file():
            shutil.copy(demo.local_server.state / name, demo.logs / copy_name)
    demo.local_server.sweep()


def _look_after(demo: Demo) -> None:
    demo.left_behind = demo.resources()
    if demo.left_behind:
        names = ", ".join(map(str, demo.left_behind))
        raise LeftBehindError(f"still there after everything was removed: {names}")


def _bootstrap(demo: Demo) -> None:
    demo.cdk.bootstrap(demo.target)


def _remove_bootstrap(demo: Demo) -> None:
    remove_bootstrap(demo.target)


def _synth(demo: Demo) -> None:
    demo.cdk.synth(demo.environment.name, demo.choice.strategy)


def _deploy(demo: Demo) -> None:
    demo.cdk.deploy(demo.target, demo.environment.name, demo.session.stack_pattern)
    demo.created |= set(demo.resources())


def _destroy(demo: Demo) -> None:
    teardown = Teardown(demo.target, demo.all_names, demo.report, LOCAL_POLL_S)
    teardown.destroy(demo.cdk).raise_if_left()


def _upload(demo: Demo) -> None:
    dataset.upload_workload(demo.target, demo.environment, demo.workspace.root, demo.report)


def _execute(demo: Demo) -> None:
    pipeline = Pipeline(demo.target, demo.names.pipeline)
    demo.report(plan_of(pipeline, demo.choice.parameters))
    demo.arn = arn = pipeline.start(demo.choice.parameters)
    metrics = demo.environment.training.metrics
    follower = Follower(pipeline, arn, demo.report, LOCAL_POLL_S, demo.logs, metrics=metrics)
    follower.raise_unless_succeeded(follower.follow())


def _report(demo: Demo) -> None:
    """Write the page of the run and its data, however it ended."""
    if demo.arn is None:
        return
    place = replace(demo.session.place, requests=demo.local_server.requests)
    run = with_others(place, demo.arn)
    (demo.output / RUN).write_text(json_of(run), encoding="utf-8")
    (demo.output / PAGE).write_text(page(run, demo.workspace.root), encoding="utf-8")


PHASES: tuple[Phase[Demo], ...] = (
    Phase("runtimes", _build_runtimes),
    Phase("emulator", _start_local_server, _stop_local_server, "stop emulator"),
    Phase("look", None, _look_after, "look after"),
    Phase("bootstrap", _bootstrap, _remove_bootstrap, "remove bootstrap"),
    Phase("synth", _synth),
    Phase("deploy", _deploy, _destroy, "destroy"),
    Phase("data", _upload),
    Phase("execute", _execute, _report, "report"),
)
"""The order of the demo.

Begun phases are undone in reverse order: report, destroy, remove bootstrap, look after, stop
emulator.
"""
