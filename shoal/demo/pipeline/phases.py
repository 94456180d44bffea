"""The phases of `shoal demo`: from an empty shoal-local through a training to an empty one again.

The report goes to `demo-out/`.
"""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from config.gates import bounds
from config.loader import load_environment
from config.names import Names
from config.settings import Environment
from shoal.demo.pipeline.report import LOGS, PAGE, Facts, clear, write_pictures, write_summary
from shoal.demo.pipeline.resources import made_by_steps
from shoal.verbs import dataset, inventory
from shoal.verbs.cdk import Cdk
from shoal.verbs.errors import LeftBehindError, NotFoundError, UsageError
from shoal.verbs.events import Detail, Event, ExecutionChanged, Note, Report, Trained
from shoal.verbs.execution import Pipeline
from shoal.verbs.flow import Outcome, Phase, run_phases
from shoal.verbs.follow import Follower, plan_of
from shoal.verbs.image import refuse_built_image
from shoal.verbs.inventory import Owner, Resource
from shoal.verbs.local_server import LocalServer, RunningServer, build_runtimes
from shoal.verbs.parameters import check_declared, check_values
from shoal.verbs.report import answers_of, evaluation_of, model_package_of
from shoal.verbs.runs.page import page
from shoal.verbs.runs.record import record
from shoal.verbs.target import Target
from shoal.verbs.teardown import Teardown, refuse_if_protected, remove_bootstrap
from shoal.verbs.workspace import LOCAL_POLL_S, Session, Workspace


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
    facts: Facts = field(default_factory=Facts)
    running: RunningServer | None = None
    arn: str | None = None
    """Of the execution, once it is started."""
    borrowed: bool = False
    """Whether it runs in the server of `shoal local up`, which the demo must not stop."""

    @property
    def names(self) -> Names:
        return Names(self.environment)

    @property
    def all_names(self) -> Names:
        """Of the whole environment: what its workloads share is the demo's, too."""
        return self.names.shared if self.environment.workloads else self.names

    @property
    def folder(self) -> Path:
        return demo_folder(self.workspace)

    @property
    def logs(self) -> Path:
        return self.output / LOGS

    @property
    def local_server(self) -> LocalServer:
        if self.borrowed:
            return self.workspace.local_server
        return LocalServer(
            self.workspace.root,
            self.folder / "emulator",
            self.logs / "emulator-output.log",
            self.workspace.environ,
        )

    @property
    def target(self) -> Target:
        if self.running is None:
            raise NotFoundError("the emulator did not start")
        return self.running.target

    @property
    def cdk(self) -> Cdk:
        return self.workspace.cdk(
            self.folder / "cdk.out", self.logs, self.folder / "tmp", self.report
        )

    @property
    def owner(self) -> Owner:
        execution = self.facts.execution
        ids = (execution.id,) if execution else ()
        return Owner.of(self.all_names, ids, workloads=[self.names])

    def note(self, text: str) -> None:
        self.report(Note(text))

    def observe(self, event: Event) -> None:
        """Keep the facts that the report needs, and list the resources that exist while the
        endpoint does.
        """
        if isinstance(event, Trained):
            self.facts.metrics.append(event.metrics)
        if isinstance(event, ExecutionChanged):
            self.facts.execution = event.execution
            serving = inventory.of_environment(
                self.target, self.owner, inventory.MADE_BY_EXECUTIONS
            )
            self.facts.created |= {*serving, *made_by_steps(event.execution)}
        self.report(event)


def run_demo(
    workspace: Workspace, choice: Choice, output: Path, report: Report, shield: Callable[[], None]
) -> Outcome:
    """Run all phases and clean up, whatever happens; write the report; return the outcome.

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
    with exclusive_folder(demo_folder(workspace)):
        clear(output)
        demo = Demo(workspace, choice, environment, output, report)
        demo.facts.strategy = choice.strategy or environment.training.strategy
        started_at = time.monotonic()
        outcome = run_phases(PHASES, demo, report, shield)
        outcome.seconds["total"] = time.monotonic() - started_at
        write_summary(demo.facts, outcome, output)
    return outcome


def demo_folder(workspace: Workspace) -> Path:
    """Return the folder that a demo uses while it runs.

    It is fixed, so that the next run cleans up after one that was killed.
    """
    return workspace.root / ".shoal" / "demo"


@contextmanager
def exclusive_folder(folder: Path) -> Iterator[None]:
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


def _build_runtimes(demo: Demo) -> None:
    runtime = demo.environment.training.framework  # a runtime is named after its framework
    log = demo.logs / "runtimes.log"
    build_runtimes(
        demo.workspace.root,
        demo.workspace.environ,
        runtime,
        log,
        lambda line: demo.report(Detail(line)),
    )


def _start_local_server(demo: Demo) -> None:
    """Use the server of `shoal local up` if it is empty, else start one."""
    server = demo.workspace.local_server.find()
    demo.borrowed = server is not None and _can_borrow(demo, server)
    if not demo.borrowed:
        environment = demo.environment
        server = demo.local_server.start(
            environment.account,
            environment.region,
            environment.local.images,
            enforce_iam=demo.choice.enforce_iam,
        )
    demo.running = server
    name = "emulator of `shoal local up`" if demo.borrowed else "emulator"
    policies = (
        ", and enforces the roles' policies" if demo.running and demo.running.enforces_iam else ""
    )
    demo.note(
        f"the {name} answers at {demo.target.endpoint_url} as account"
        f" {demo.environment.account}{policies}"
    )
    if demo.running and demo.running.notice:
        demo.note(demo.running.notice)


def _can_borrow(demo: Demo, server: RunningServer) -> bool:
    """Return whether the server has the right account, region and enforcement, and no resources."""
    if (server.account, server.region) != (demo.environment.account, demo.environment.region):
        return False
    if demo.choice.enforce_iam and not server.enforces_iam:
        return False
    return not (
        *inventory.of_environment(server.target, demo.owner),
        *inventory.of_bootstrap(server.target),
    )


def _stop_local_server(demo: Demo) -> None:
    for name, copy_name in (
        ("emulator.log", "emulator.log"),
        ("requests.jsonl", "emulator-requests.jsonl"),
    ):
        if (demo.local_server.state / name).is_file():
            shutil.copy(demo.local_server.state / name, demo.logs / copy_name)
    if not demo.borrowed:
        demo.local_server.sweep()


def _look_before(demo: Demo) -> None:
    if resources := _resources(demo):
        raise LeftBehindError(
            f"a new emulator should be empty, but has {', '.join(map(str, resources))}"
        )


def _look_after(demo: Demo) -> None:
    demo.facts.left_behind = _resources(demo)
    if demo.facts.left_behind:
        raise LeftBehindError(
            "still there after everything was removed:"
            f" {', '.join(map(str, demo.facts.left_behind))}"
        )


def _resources(demo: Demo) -> tuple[Resource, ...]:
    return (
        *inventory.of_environment(demo.target, demo.owner),
        *inventory.of_bootstrap(demo.target),
    )


def _bootstrap(demo: Demo) -> None:
    demo.cdk.bootstrap(demo.target)
    demo.facts.created |= set(inventory.of_bootstrap(demo.target))


def _remove_bootstrap(demo: Demo) -> None:
    remove_bootstrap(demo.target)


def _synth(demo: Demo) -> None:
    demo.cdk.synth(demo.environment.name, demo.choice.strategy)


def _deploy(demo: Demo) -> None:
    session = Session(demo.workspace, demo.environment, demo.target)
    demo.cdk.deploy(demo.target, demo.environment.name, session.stack_pattern)
    demo.facts.created |= set(inventory.of_environment(demo.target, demo.owner))


def _destroy(demo: Demo) -> None:
    teardown = Teardown(demo.target, demo.all_names, demo.report, LOCAL_POLL_S)
    teardown.destroy(demo.cdk).raise_if_left()


def _upload(demo: Demo) -> None:
    dataset.upload_workload(demo.target, demo.environment, demo.workspace.root, demo.report)


def _execute(demo: Demo) -> None:
    pipeline = Pipeline(demo.target, demo.names.pipeline)
    demo.report(plan_of(pipeline, demo.choice.parameters))
    demo.arn = arn = pipeline.start(demo.choice.parameters)
    follower = Follower(
        pipeline,
        arn,
        demo.observe,
        LOCAL_POLL_S,
        demo.logs,
        metrics=demo.environment.training.metrics,
    )
    follower.raise_unless_succeeded(follower.follow())


def _write_page(demo: Demo) -> None:
    """Write the page of the run, however it ended."""
    if demo.arn is not None:
        session = Session(demo.workspace, demo.environment, demo.target)
        place = replace(session.place, requests=demo.local_server.requests)
        text = page(record(place, demo.arn), demo.workspace.root)
        (demo.output / PAGE).write_text(text, encoding="utf-8")


def _collect(demo: Demo) -> None:
    execution = demo.facts.execution
    if execution is None:
        raise NotFoundError("there is no execution to report on")
    demo.facts.evaluation = evaluation_of(demo.target, execution)
    demo.facts.answers = answers_of(execution)
    demo.facts.package = model_package_of(demo.target, execution)
    demo.facts.limits = tuple(
        each for each in bounds(demo.environment.evaluation.gates) if each.kind in _NUMBERS
    )
    demo.facts.notes = {
        name: metric.note for name, metric in demo.environment.training.metrics.items()
    }
    write_pictures(demo.facts, demo.workspace.root, demo.output)


_NUMBERS = ("at least", "at most")
PHASES: tuple[Phase[Demo], ...] = (
    Phase("runtimes", _build_runtimes),
    Phase("emulator", _start_local_server, _stop_local_server, "stop emulator"),
    Phase("look before", _look_before, _look_after, "look after"),
    Phase("bootstrap", _bootstrap, _remove_bootstrap, "remove bootstrap"),
    Phase("synth", _synth),
    Phase("deploy", _deploy, _destroy, "destroy"),
    Phase("data", _upload),
    Phase("execute", _execute, _write_page, "write page"),
    Phase("collect", _collect),
)
"""The order of the demo.

Begun phases are undone in reverse order: write page, destroy, remove bootstrap, look after, stop
emulator.
"""
