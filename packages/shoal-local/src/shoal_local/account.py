"""One emulated account in one region: its control plane, its SageMaker and their state.

The accounts of a process meet only over the API. A request goes to the account that its access key
belongs to. A request about another account's resource goes to that account, if the policies there
allow it (see `authorization`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from shoal_local.context import ServiceContext
from shoal_local.control import alarms
from shoal_local.control.alarms import Alarms
from shoal_local.control.authorization.account import AccountState
from shoal_local.control.authorization.authorizer import Authorizer
from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.autoscaling import AutoScaling
from shoal_local.control.cloudformation.service import CloudFormation
from shoal_local.control.events import Events
from shoal_local.control.fsx import Fsx
from shoal_local.control.functions.invoker import Invoker
from shoal_local.control.functions.mappings import EventSources
from shoal_local.control.functions.service import Functions
from shoal_local.control.http.guards import GUARDS, merged
from shoal_local.control.http.protocol import Answer, account_of
from shoal_local.control.http.request_handler import RequestLog
from shoal_local.control.identity.identity import Clients, Identity, root_of
from shoal_local.control.identity.policy_guards import PolicyGuards
from shoal_local.control.kept_services import BuildProjects, Quotas, Tagging
from shoal_local.control.moto_patches import MotoApplication
from shoal_local.control.objects import ObjectGuards
from shoal_local.control.schedules import Scheduler
from shoal_local.control.service_router import Service, ServiceRouter
from shoal_local.faults import Faults
from shoal_local.processes import ProcessRegistry
from shoal_local.sagemaker.core import Settings
from shoal_local.sagemaker.service import Gateway, SageMakerService

SAGEMAKER = "sagemaker.amazonaws.com"


@dataclass(frozen=True)
class Shared:
    """What all accounts of a region share: address, settings, request log and evaluator.

    `regions` are those that the emulator has, the first of which answers for what has no region.
    """

    region: str
    regions: Sequence[str]
    secret: str
    """The secret access key of every account's root."""
    endpoint_url: Callable[[], str]
    registry: ProcessRegistry
    evaluator: Evaluator
    requests: RequestLog
    settings: Settings
    faults: Faults
    schedule_speed: float
    enforce_iam: bool
    paths: Callable[[dict[str, Any]], Answer | None]
    moto: MotoApplication = field(default_factory=MotoApplication)


class Account:
    """The account `number`; its constructor wires the parts, and every part gets the others as
    arguments.

    `others` are the emulator's accounts in the same region by number; this account is added once it
    exists. `folder` holds the account's files there. `first` is the account in the first region,
    None for that one itself.
    """

    def __init__(
        self,
        number: str,
        folder: Path,
        shared: Shared,
        others: "Mapping[str, Account]",
        first: "Account | None" = None,
    ) -> None:
        self.number, self.region = number, shared.region
        self._folder, self._shared, self._others = folder, shared, others
        root = root_of(number, shared.secret)
        self.identity: Identity = (
            replace(first.identity, region=shared.region)
            if first
            else Identity(number, shared.region, root)
        )
        self.clients = Clients(shared.endpoint_url, shared.region, root)
        self.invoker = Invoker(
            self.identity, self.clients, shared.registry, folder / "lambda", shared.faults
        )
        self.functions = Functions(self.identity, self.clients, self.invoker, folder / "lambda")
        self.sources = EventSources(
            self.identity,
            self.clients,
            self.functions,
            lambda role, action, resource: self.authorizer.role_may(role, action, resource),
        )
        self.events = Events(
            self.identity, self.clients, self.functions, shared.schedule_speed, shared.faults
        )
        self.scheduler = Scheduler(self.identity, self.clients, shared.schedule_speed)
        self.alarms = Alarms(
            number, shared.region, shared.settings.hosting_speed, shared.schedule_speed
        )
        self.autoscaling = AutoScaling(self.identity, self.clients)
        self.fsx = Fsx(self.identity, self.clients, folder / "fsx")
        self.sagemaker: SageMakerService = SageMakerService(self.context(), shared.settings)
        self.state = self._state()
        self.authorizer: Authorizer = Authorizer(
            self.identity, self.state, shared.evaluator, shared.requests, shared.enforce_iam
        )
        self.cloudformation = CloudFormation(
            self.identity, self.clients, self.functions, shared.endpoint_url
        )
        self.projects = BuildProjects(self.identity)
        self.quotas = Quotas(self.identity, shared.settings.capacity)
        self.router = self._service_router()

    @property
    def closing(self) -> tuple[Callable[[], object], ...]:
        """Return what stops the account, in the order in which parts use each other. The server
        must answer meanwhile.
        """
        parts = (
            self.cloudformation,
            self.scheduler,
            self.events,
            self.sagemaker,
            self.invoker,
            self.sources,  # a poller waits for its function, which the invoker kills
        )
        return (self.sources.stop, *(part.close for part in parts))

    def context(self) -> ServiceContext:
        """Return the control plane as a service of this account sees it."""
        return ServiceContext(
            account=self.number,
            region=self._shared.region,
            state_dir=self._folder,
            processes=self._shared.registry,
            endpoint_url=self._shared.endpoint_url,
            clients=self.clients,
            emit_event=self._emit,
            role_credentials=lambda role_arn, session_name: self.identity.service_credentials(
                role_arn, session_name, SAGEMAKER
            ),
            measure=partial(alarms.keep, self.number, self._shared.region),
            mount=self.fsx.mount,
            on_behalf=lambda kind, name, request, credentials: self.authorizer.check_service_role(
                kind, name, request, credentials
            ),
            model_package=self._model_package,
            quota=lambda name: self.quotas.limit(name),
            faults=self._shared.faults,
        )

    def _emit(self, entry: Mapping[str, Any]) -> None:
        self.autoscaling.on_event(entry)
        self.events.emit(entry)

    def _model_package(self, arn: str) -> Mapping[str, Any]:
        """Return DescribeModelPackage of the account in the ARN.

        A plain name, or the ARN of an account that is not emulated, is looked up in this account.
        """
        owner = self._others.get(account_of(arn), self)
        return owner.sagemaker.handle(
            "DescribeModelPackage", {"ModelPackageName": arn}, self.identity.root_arn
        )

    def _state(self) -> AccountState:
        return AccountState(
            self.number,
            self._shared.region,
            self.functions,
            lambda operation, request: self.sagemaker.handle(
                operation, request, self.identity.root_arn
            ),
            lambda number: self._others[number].state if number in self._others else None,
            self.autoscaling.has_target,
        )

    def _service_router(self) -> ServiceRouter:
        tagging = Tagging(self._function_tags, "Resource", "ListTags")
        guards = merged(
            GUARDS,
            {
                "cloudwatch": {"DescribeAlarms": self.alarms.guard},
                "iam": self.identity.guards,
                "events": self.events.guards,
                "scheduler": self.scheduler.guards,
                "s3": ObjectGuards(self.state).guards,
            },
            PolicyGuards(self.identity, self._others.keys()).guards,
        )
        kept = {
            "application-autoscaling": self.autoscaling.operations,
            "codebuild": self.projects.operations,
            "service-quotas": self.quotas.operations,
        }
        functions = {**self.functions.operations, **self.sources.operations, **tagging.operations}
        services = {
            **{name: Service({}) for name in guards},
            "sts": Service(self.identity.operations, complete=True),
            "iam": Service(self.authorizer.operations),
            "events": Service(self.events.operations),
            "lambda": Service(functions, complete=True),
            "cloudformation": Service(self.cloudformation.operations, complete=True),
            "fsx": Service(self.fsx.operations, complete=True),
            **{
                name: Service(operations, complete=True, keeps=True)
                for name, operations in kept.items()
            },
        }
        services = {
            name: replace(service, guards=guards.get(name, {}))
            for name, service in services.items()
        }
        shared = self._shared
        return ServiceRouter(
            self.identity,
            shared.requests,
            shared.moto,
            services,
            self.authorizer,
            lambda number: self._others[number].router.services,
            Gateway(lambda number: self._others[number].sagemaker, self.authorizer),
            shared.paths,
            shared.regions,
        )

    def _function_tags(self, arn: str) -> dict[str, str]:
        """Return the tags of a function or of an event source mapping."""
        is_mapping = ":event-source-mapping:" in arn
        return self.sources.tags(arn) if is_mapping else self.functions.get(arn).tags
