"""A checkout as the verbs see it: its environments, its `.shoal` folder, and where requests go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from config.loader import load_environment
from config.names import Names
from config.settings import Environment
from config.settings import Target as TargetKind
from shoal.verbs.cdk import Cdk
from shoal.verbs.errors import WrongAccountError
from shoal.verbs.events import Detail, Report
from shoal.verbs.execution import Pipeline
from shoal.verbs.flow import phase
from shoal.verbs.local_server import LocalServer
from shoal.verbs.serving_removal import ServingRemoval
from shoal.verbs.stacks import Stacks
from shoal.verbs.target import Target
from shoal.verbs.teardown import Teardown, is_bootstrapped

LOCAL_POLL_S = 0.5
AWS_POLL_S = 10.0


@dataclass(frozen=True)
class Workspace:
    """A checkout, and the environment variables of the user who works in it."""

    root: Path
    environ: Mapping[str, str]

    def open(self, name: str, local: bool) -> Session:
        """Return the environment `name` and its target.

        Raises ConfigError, NotFoundError (no shoal-local runs), WrongAccountError.
        """
        environment = load_environment(name, self.root)
        target = self.target_of(environment, local)
        target.check_account()
        return Session(self, environment, target)

    @property
    def local_server(self) -> LocalServer:
        """Return the shoal-local that `shoal local up` starts."""
        folder = self.root / ".shoal" / "local"
        return LocalServer(
            self.root, folder, self.root / ".shoal" / "logs" / "emulator.log", self.environ
        )

    def cdk(self, assembly: Path, logs: Path, scratch: Path, report: Report) -> Cdk:
        return Cdk(
            self.root, self.environ, assembly, logs, scratch, lambda line: report(Detail(line))
        )

    def target_of(self, environment: Environment, local: bool) -> Target:
        """Return where requests for `environment` go, without sending any.

        Raises NotFoundError if that is shoal-local and none runs.
        """
        if not local and environment.target is TargetKind.AWS:
            return Target(environment.account, environment.region)
        running = self.local_server.require()
        if environment.account not in running.accounts or environment.region != running.region:
            request = (
                f"environment {environment.name} is for {environment.account} in"
                f" {environment.region}"
            )
            advice = (
                f"run `shoal local down`, then `shoal local up {environment.name}`, with the other"
                " environments that you want beside it"
            )
            raise WrongAccountError(
                f"the emulator plays {running.description}, {request}; {advice}"
            )
        return running.target_of(environment.account)


@dataclass(frozen=True)
class Session:
    """One environment at one target."""

    workspace: Workspace
    environment: Environment
    target: Target

    @property
    def names(self) -> Names:
        return Names(self.environment)

    @property
    def arguments(self) -> str:
        """Return the words that name this environment and target in a command, for messages."""
        flag = (
            " --local" if self.target.is_local and self.environment.target is TargetKind.AWS else ""
        )
        return self.environment.name + flag

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(self.target, self.names.pipeline)

    @property
    def poll_s(self) -> float:
        return LOCAL_POLL_S if self.target.is_local else AWS_POLL_S

    def cdk(self, report: Report) -> Cdk:
        """Return the CDK CLI with an assembly of this environment alone.

        So `shoal synth` and other environments do not change it.
        """
        folder = self._folder
        return self.workspace.cdk(self.assembly, folder, folder / "tmp", report)

    def prepared(self, report: Report) -> Cdk:
        """Return the CLI for a bootstrapped account, with the environment synthesised."""
        cdk = self.cdk(report)
        if not is_bootstrapped(self.target):
            with phase(f"bootstrap {self.target.description}", report):
                cdk.bootstrap(self.target)
        with phase(f"synth {self.environment.name}", report):
            cdk.synth(self.environment.name)
        return cdk

    @property
    def assembly(self) -> Path:
        """Return the folder of this environment's templates, which exist after a synth."""
        return self._folder / "cdk.out"

    @property
    def _folder(self) -> Path:
        return self.workspace.root / ".shoal" / "cdk" / self.environment.name

    def teardown(self, report: Report) -> Teardown:
        return Teardown(self.target, self.names, report, self.poll_s)

    def stacks(self, report: Report) -> Stacks:
        return Stacks(self.target, self.names, report, self.poll_s)

    def serving_removal(self, report: Report) -> ServingRemoval:
        return ServingRemoval(self.target, self.names, report, self.poll_s)
