"""A checkout as the verbs see it: its environments, its `.shoal` folder, and where requests go."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from shoal.aws.cdk import Cdk
from shoal.aws.events import Detail, Report
from shoal.aws.execution import Pipeline
from shoal.aws.stacks import ORDER, Stacks
from shoal.aws.target import Target
from shoal.costs import prices
from shoal.errors import UsageError, WrongAccountError
from shoal.page.commit import commit_of
from shoal.page.look import Place
from shoal.repository import Repository
from shoal.settings.loading.loader import load_environment, load_workloads
from shoal.settings.names import RUNS, SHARED_PARTS, Names
from shoal.settings.organisation import DEFAULT_QUALIFIER, toolkit_stack
from shoal.settings.settings import Environment
from shoal.settings.settings import Target as TargetKind
from shoal.verbs.destroy.leftovers import ServingRemoval
from shoal.verbs.destroy.teardown import Teardown, is_bootstrapped
from shoal.verbs.flow import phase
from shoal.verbs.local_server import LocalServer

_OWN_PARTS = tuple(part for part in ORDER if part not in SHARED_PARTS)
LOCAL_POLL_S = 0.5
AWS_POLL_S = 10.0


@dataclass(frozen=True)
class Workspace:
    """A checkout, and the environment variables of the user who works in it."""

    root: Path
    environ: Mapping[str, str]

    def open(self, name: str, local: bool, workload: str | None = None) -> "Session":
        """Return a workload of the environment `name`, or its only one, and its target.

        Raises ConfigError, NotFoundError (no shoal-local runs), WrongAccountError.
        """
        environment = load_environment(name, self.root, workload=workload)
        return Session(self, environment, self.reach(environment, local))

    def open_whole(self, name: str, local: bool, workload: str | None = None) -> "Session":
        """Return all workloads of the environment `name`, or only `workload`, and their target.

        Raises as `open` does.
        """
        if workload is not None:
            return self.open(name, local, workload)
        views = load_workloads(name, self.root)
        return Session(self, views[0], self.reach(views[0], local), views)

    def reach(self, environment: Environment, local: bool) -> Target:
        """Return the target of `environment`, whose account was asked who is there.

        Raises NotFoundError (no shoal-local runs), WrongAccountError.
        """
        target = self.target_of(environment, local)
        target.check_account()
        return target

    @property
    def local_server(self) -> LocalServer:
        """Return the shoal-local that `shoal local up` starts."""
        folder = self.root / ".shoal"
        log = folder / "logs" / "emulator.log"
        return LocalServer(self.root, folder / "local", log, self.environ)

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
        running, name = self.local_server.require(), environment.name
        if environment.account not in running.accounts or environment.region != running.region:
            raise WrongAccountError(
                f"the emulator plays {running.description}, environment {name} is for"
                f" {environment.account} in {environment.region}; run `shoal local down`, then"
                f" `shoal local up {name}`, with the other environments that you want beside it"
            )
        return running.target_of(environment.account)


@dataclass(frozen=True)
class Session:
    """A workload of an environment at a target; or all, and `environment` is the first one's."""

    workspace: Workspace
    environment: Environment
    target: Target
    views: tuple[Environment, ...] = ()
    """All of the environment's workloads, where it is opened as a whole."""
    scores: bool = False
    """Whether its pipeline is the one that scores."""

    @property
    def scoring(self) -> "Session":
        """The same, with the pipeline that scores."""
        return replace(self, scores=True)

    @property
    def pipelines(self) -> "tuple[Session, ...]":
        """The workload with each of its pipelines: that which trains first."""
        return (self, self.scoring) if self.environment.scoring else (self,)

    def find(self, execution: str) -> "tuple[Session, str]":
        """Return the execution's ARN, and the same with the pipeline that has it: the one that
        scores for an ARN or id there, else the one that trains. Raises as `Pipeline.find`.
        """
        for own in self.pipelines[1:]:
            for each in own.pipeline.executions():
                arn = str(each["PipelineExecutionArn"])
                if execution in {arn, arn.rpartition("/")[2]}:
                    return own, arn
        return self, self.pipeline.find(execution)

    @property
    def names(self) -> Names:
        """The workload's names; of the whole, those of what its workloads share."""
        names = Names(self.environment)
        names = names.scoring if self.scores else names
        return names.shared if self.views else names

    @property
    def each(self) -> "tuple[Session, ...]":
        """Its workloads."""
        views = self.views or (self.environment,)
        return tuple(replace(self, environment=view, views=()) for view in views)

    @property
    def title(self) -> str:
        """The words that name it: `dev`, or `dev prices` for one of several workloads."""
        return self.environment.name if self.views else self.environment.title

    @property
    def arguments(self) -> str:
        """Return the words that name it and its target in a command, for messages."""
        return self.title + self.flag

    @property
    def flag(self) -> str:
        """` --local` where the file's target is AWS, and this one is not."""
        is_other = self.target.is_local and self.environment.target is TargetKind.AWS
        return " --local" if is_other else ""

    @property
    def stack_pattern(self) -> str:
        """The ids of its stacks in their stage, as a pattern for the CDK CLI."""
        if self.views or not self.environment.workloads:
            return "*"
        return self.names.stack_id(f"{{{','.join(_OWN_PARTS)}}}")

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(self.target, self.names.pipeline)

    @property
    def place(self) -> Place:
        """Return where its runs are read."""
        names, environment, workspace = self.names, self.environment, self.workspace
        repository = Repository(workspace.root, workspace.environ)

        def commit(code_uri: str) -> str:
            folder = environment.training.source_dir
            return commit_of(repository, folder, self.target, code_uri) or ""

        return Place(
            target=self.target,
            pipeline=self.pipeline,
            is_local=self.target.is_local,
            environment=environment.name,
            workload=environment.workload,
            strategy=environment.training.strategy,
            arguments=self.arguments,
            model_package_group=names.model_package_group,
            metrics=environment.training.metrics,
            cleaners={each: names.function(each) for each in ("teardown", "sweep")},
            bucket=names.bucket("artifacts"),
            folder=names.folder(RUNS),
            cost_tags=names.bill_tags,
            price_of=partial(prices.instance, region=environment.region),
            commit_of=commit,
            requests=workspace.local_server.requests if self.target.is_local else None,
        )

    @property
    def poll_s(self) -> float:
        return LOCAL_POLL_S if self.target.is_local else AWS_POLL_S

    def cdk(self, report: Report) -> Cdk:
        """Return the CDK CLI with an assembly of this environment, or workload, alone.

        So `shoal plan --templates`, other environments and other workloads do not change it.
        """
        folder = self._folder
        return self.workspace.cdk(self.assembly, folder, folder / "tmp", report)

    def prepared(self, report: Report, *bootstrap_options: str) -> Cdk:
        """Return the CLI for a bootstrapped account, with the environment synthesised."""
        cdk = self.cdk(report)
        if not is_bootstrapped(self.target, qualifier := self.names.qualifier):
            if qualifier != DEFAULT_QUALIFIER and not self.target.is_local:
                raise UsageError(
                    f"organisation.bootstrap_qualifier: {self.target.description} has no bootstrap"
                    f" of {qualifier}; correct it, or make it by `.venv/bin/cdk bootstrap"
                    f" --qualifier {qualifier} --toolkit-stack-name {toolkit_stack(qualifier)}`"
                )
            tags = [f"--tags={key}={value}" for key, value in self.environment.tags.items()]
            with phase(f"bootstrap {self.target.description}", report):
                cdk.bootstrap(self.target, qualifier, *bootstrap_options, *tags)
        with phase(f"synth {self.environment.name}", report):
            cdk.synth(self.environment.name, for_aws=not self.target.is_local)
        return cdk

    @property
    def assembly(self) -> Path:
        """Return the folder of this environment's templates, which exist after a synth."""
        return self._folder / "cdk.out"

    @property
    def _folder(self) -> Path:
        return self.workspace.root / ".shoal" / "cdk" / ".".join(self.title.split())

    def teardown(self, report: Report) -> Teardown:
        return Teardown(self.target, self.names, report, self.poll_s)

    def stacks(self, report: Report) -> Stacks:
        return Stacks(self.target, self.names, report, self.poll_s)

    def serving_removal(self, report: Report) -> ServingRemoval:
        return ServingRemoval(self.target, self.names, report, self.poll_s)
