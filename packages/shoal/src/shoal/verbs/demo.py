"""`shoal demo`: the verbs in a row, from an empty shoal-local through a training to an empty one.

The page of the run, its run.json, summary.json and the logs go to `demo-out/`.
"""

import fcntl
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from shoal.aws import inventory, registry
from shoal.aws.cdk import Cdk
from shoal.aws.events import Detail, Note, Planned, Report
from shoal.aws.inventory import Owner, Resource
from shoal.errors import LeftBehindError, NotFoundError, UsageError
from shoal.launch import recipes
from shoal.page.history import json_of, with_others
from shoal.page.page import page
from shoal.settings.names import Names
from shoal.settings.settings import Environment
from shoal.verbs import dataset, inference
from shoal.verbs.destroy.teardown import Teardown, refuse_if_protected, remove_bootstrap
from shoal.verbs.flow import Outcome, Phase, run_phases
from shoal.verbs.follow import Follower
from shoal.verbs.image import build_missing, refuse_built_image
from shoal.verbs.local_server import LocalServer, RunningServer, build_runtimes
from shoal.verbs.parameters import check_declared, check_values
from shoal.verbs.workspace import LOCAL_POLL_S, Session, Workspace

SUMMARY, RUN, PAGE, LOGS = "summary.json", "run.json", "index.html", "logs"


@dataclass
class Demo:
    """The user's options, and the state that the phases share."""

    workspace: Workspace
    environment: Environment
    """As the workload to train has it; others are not deployed."""
    output: Path
    report: Report
    strategy: str | None
    """An overlay in environments/strategies/; None for the environment as it is."""
    parameters: dict[str, str]
    """Pipeline parameters."""
    enforce_iam: bool
    """Whether shoal-local applies the policies of the roles."""
    running: RunningServer | None = None
    arn: str | None = None
    """Of the execution, once it is started."""
    run_record: dict[str, Any] | None = None
    """What run.json has, once there is one."""
    summary: dict[str, Any] = field(default_factory=dict)
    """What summary.json has at the end."""
    created: set[Resource] = field(default_factory=set)
    left_behind: tuple[Resource, ...] | None = None
    """None: it was not possible to look."""

    def run(self, shield: Callable[[], None]) -> Outcome:
        """Run all phases and clean up, whatever happens; write the summary; return the outcome.

        Raises ConfigError and UsageError, before anything is started, for what cannot work.
        """
        environment, root = self.environment, self.workspace.root
        refuse_if_protected(environment)
        refuse_built_image(environment)
        dataset.require(environment, root)
        check_declared(environment, self.parameters, root)
        check_values(environment, self.parameters, root)
        with exclusive(self.folder):
            self.output.mkdir(parents=True, exist_ok=True)
            for name in (SUMMARY, RUN, PAGE):  # of an earlier demo; nothing else in the folder
                (self.output / name).unlink(missing_ok=True)
            shutil.rmtree(self.logs, ignore_errors=True)
            self.logs.mkdir()
            started_at = time.monotonic()
            outcome = run_phases(self._phases(), self.report, shield)
            outcome.seconds["total"] = time.monotonic() - started_at
            self._write_summary(outcome)
        return outcome

    def _phases(self) -> tuple[Phase, ...]:
        """Return the order of the demo.

        Begun phases are undone in reverse order: report, destroy, remove bootstrap, look after,
        stop emulator.
        """
        return (
            Phase("data", self._prepare),
            Phase("runtimes", self._build_runtimes),
            Phase("emulator", self._start_local_server, self._stop_local_server, "stop emulator"),
            Phase("look", None, self._look_after, "look after"),
            Phase(
                "bootstrap",
                lambda: self.cdk.bootstrap(self.session.target, self.all_names.qualifier),
                lambda: remove_bootstrap(self.session.target, self.all_names.qualifier),
                "remove bootstrap",
            ),
            Phase("synth", lambda: self.cdk.synth(self.environment.name, self.strategy)),
            Phase("deploy", self._deploy, self._destroy, "destroy"),
            Phase("upload", self._upload),
            Phase("execute", self._execute, self._report, "report"),
            *((Phase("score", self._score),) if self.environment.scoring else ()),
        )

    @property
    def folder(self) -> Path:
        """In use while a demo runs; fixed, so that the next one cleans up after a killed one."""
        return self.workspace.root / ".shoal" / "demo"

    @property
    def _dataset(self) -> Path:
        return self.folder / "data"

    @property
    def logs(self) -> Path:
        return self.output / LOGS

    @property
    def local_server(self) -> LocalServer:
        log, workspace = self.logs / "emulator-output.log", self.workspace
        return LocalServer(workspace.root, self.folder / "emulator", log, workspace.environ)

    @property
    def session(self) -> Session:
        if self.running is None:
            raise NotFoundError("the emulator did not start")
        return Session(self.workspace, self.environment, self.running.target)

    @property
    def all_names(self) -> Names:
        """Of the whole environment: what its workloads share is the demo's, too."""
        names = Names(self.environment)
        return names.shared if self.environment.workloads else names

    @property
    def cdk(self) -> Cdk:
        folder = self.folder
        return self.workspace.cdk(folder / "cdk.out", self.logs, folder / "tmp", self.report)

    def resources(self) -> tuple[Resource, ...]:
        """Return all that is in the account and is the demo's."""
        ids, target = (self.arn.rpartition("/")[2],) if self.arn else (), self.session.target
        owner = Owner.of(self.all_names, ids, workloads=[Names(self.environment)])
        own, names = inventory.of_environment(target, owner), self.all_names
        return (*own, *inventory.of_bootstrap(target, names.qualifier))

    def _write_summary(self, outcome: Outcome) -> None:
        """Write summary.json; Succeeded means that all phases and clean-ups went well."""
        status = "Failed" if outcome.failures else "Succeeded"
        left = self.left_behind if self.running else ()  # nothing is made without an emulator
        self.summary = {
            "status": "Interrupted" if outcome.interrupted else status,
            "strategy": self.strategy or self.environment.training.strategy,
            "failures": [{"phase": e.phase, "message": e.message} for e in outcome.failures],
            "created": [asdict(each) for each in sorted(self.created)],
            "left_behind": None if left is None else [asdict(each) for each in left],
            "seconds": {name: round(seconds, 2) for name, seconds in outcome.seconds.items()},
        }
        text = json.dumps(self.summary, indent=2) + "\n"
        (self.output / SUMMARY).write_text(text, encoding="utf-8")

    def _prepare(self) -> None:
        shutil.rmtree(self._dataset, ignore_errors=True)  # of a demo that was killed
        dataset.prepare(self.environment, self.workspace.root, self._dataset, self.report)

    def _build_runtimes(self) -> None:
        training = self.environment.training
        built = training.build_image and recipes.recipe(training.build_image).runtime
        runtime = built or training.framework.runtime
        place, log = (self.workspace.root, self.workspace.environ), self.logs / "runtimes.log"
        build_runtimes(*place, runtime, log, lambda line: self.report(Detail(line)))

    def _start_local_server(self) -> None:
        environment = self.environment
        account, region = environment.account, environment.region
        images = environment.local.runtimes
        running = self.local_server.start(account, region, images, enforce_iam=self.enforce_iam)
        self.running = running
        policies = ", and enforces the roles' policies" if running.enforces_iam else ""
        where = f"answers at {running.endpoint} as account {account}"
        self.report(Note(f"the emulator {where}{policies}"))
        if running.notice:
            self.report(Note(running.notice))

    def _stop_local_server(self) -> None:
        copies = {"emulator.log": "emulator.log", "requests.jsonl": "emulator-requests.jsonl"}
        for name, copy_name in copies.items():
            if (file := self.local_server.state / name).is_file():
                shutil.copy(file, self.logs / copy_name)
        self.local_server.sweep()

    def _look_after(self) -> None:
        self.left_behind = self.resources()
        if self.left_behind:
            names = ", ".join(map(str, self.left_behind))
            raise LeftBehindError(f"still there after everything was removed: {names}")

    def _deploy(self) -> None:
        session = self.session
        build_missing(session, self.cdk, self.report)
        self.cdk.deploy(session.target, self.environment.name, session.stack_pattern)
        self.created |= set(self.resources())

    def _destroy(self) -> None:
        teardown = Teardown(self.session.target, self.all_names, self.report, LOCAL_POLL_S)
        destroy = partial(self.cdk.destroy, self.session.target, self.environment.name)
        teardown.destroy(destroy).raise_if_left()

    def _upload(self) -> None:
        place = self.session.target, self.environment, self.workspace.root
        dataset.upload_workload(*place, self.report, self._dataset)
        shutil.rmtree(self._dataset, ignore_errors=True)

    def _execute(self) -> None:
        pipeline, metrics = self.session.pipeline, self.environment.training.metrics
        self.report(Planned(pipeline.planned_steps()))
        self.arn = arn = pipeline.start(self.parameters)
        follower = Follower(pipeline, arn, self.report, LOCAL_POLL_S, self.logs, metrics=metrics)
        follower.raise_unless_succeeded(follower.follow())

    def _score(self) -> None:
        """Approve the version, as a person would, and let it score."""
        session, target = self.session, self.session.target
        newest, _ = registry.versions(target, session.names.model_package_group)[0]
        registry.approve(target, newest, "for the demo")
        own, arn = inference.start(session, {})
        follower = Follower(own.pipeline, arn, self.report, LOCAL_POLL_S, self.logs)
        execution = follower.follow()
        follower.raise_unless_succeeded(execution)
        for line in inference.results(session, execution).lines:
            self.report(Note(line))

    def _report(self) -> None:
        """Write the page of the run and its data, however it ended."""
        if self.arn is None:
            return
        place = replace(self.session.place, requests=self.local_server.requests)
        self.run_record = run = with_others(place, self.arn)
        run["verdict"]["next"] = self._next(run["verdict"]["step"])
        (self.output / RUN).write_text(json_of(run), encoding="utf-8")
        (self.output / PAGE).write_text(page(run, self.workspace.root), encoding="utf-8")

    def _next(self, failed_step: str | None) -> str:
        """Return commands that go on, one a line: what ran is gone with its emulator."""
        title = self.environment.title
        if failed_step is None:
            up, deploy = f"shoal local up {self.environment.name}", f"shoal deploy {title} --local"
            return (
                "shoal new NAME  # a model of your own\n"
                f"{up} && {deploy}  # keep it running (`shoal docs first-run`)"
            )
        again = f"shoal demo {title}  # once more"
        log = self.logs / f"{failed_step}.log"
        return f"less {log}\n{again}" if log.is_file() else again


@contextmanager
def exclusive(folder: Path) -> Iterator[Path]:
    """Lock the folder, called after its verb, against a second one in the same checkout, and remove
    it at the end.

    Raises UsageError if one runs already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"a {folder.name} is running in this checkout already") from None
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
