"""One blue/green deployment to an endpoint: a new fleet gets the traffic by the plan's shares while
its alarms are watched, and takes over, or all traffic goes back to the old one.

After a shift the new fleet bakes for WaitIntervalInSeconds, after the last for
TerminationWaitInSeconds, by a clock `Settings.hosting_speed` times as fast as ours. Source:
developer guide, "Deployment guardrails", and the API reference.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.context import RoleCredentials
from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.container.launch import PodError
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.hosting.server import Fleet, ServerFailedError
from shoal_local.sagemaker.hosting.traffic import Traffic
from shoal_local.sagemaker.jobs.base.containers import BuildStoppedError, RuntimeBuildError
from shoal_local.sagemaker.jobs.base.storage import DataError
from shoal_local.sagemaker.resources import assume
from shoal_local.sagemaker.shapes import Document

ALL_TRAFFIC = 1.0


@dataclass(frozen=True)
class Shift:
    """Give the new fleet `share` of the traffic (0 to 1), then bake for `bake_s` of its clock."""

    share: float
    bake_s: float


@dataclass(frozen=True)
class Plan:
    """The shifts of a deployment. `timeout_s` None: nothing limits its time."""

    shifts: tuple[Shift, ...] = (Shift(ALL_TRAFFIC, 0.0),)
    alarms: tuple[str, ...] = ()
    timeout_s: float | None = None


def plan_of(config: Document | None) -> Plan:
    """Return the plan of a DeploymentConfig; without one the new fleet gets all traffic at once."""
    if not config:
        return Plan()
    watched = config.get("AutoRollbackConfiguration", {}).get("Alarms", [])
    alarms = tuple(each["AlarmName"] for each in watched if each.get("AlarmName"))
    policy = config.get("BlueGreenUpdatePolicy")
    if not policy:
        return Plan(alarms=alarms)
    routing = policy["TrafficRoutingConfiguration"]
    wait_s = float(routing["WaitIntervalInSeconds"])
    first = [Shift(share, wait_s) for share in _shares(routing)]
    last = Shift(ALL_TRAFFIC, float(policy.get("TerminationWaitInSeconds", 0)))
    return Plan((*first, last), alarms, policy.get("MaximumExecutionTimeoutInSeconds"))


def _shares(routing: Document) -> list[float]:
    """Return the shares that come before all of the traffic."""
    kind = routing["Type"]
    member = {"CANARY": "CanarySize", "LINEAR": "LinearStepSize"}.get(kind)
    if member and member not in routing:
        raise invalid(f"{member} is required for the traffic routing type {kind}")
    if kind == "CANARY":
        return [routing["CanarySize"]["Value"] / 100]
    if kind == "LINEAR":
        step = routing["LinearStepSize"]["Value"]
        return [percent / 100 for percent in range(step, 100, step)]
    return []


FAILURES = (
    *(ServerFailedError, DataError, PodError, AwsError),
    *(RuntimeBuildError, BuildStoppedError),
)
CHECK_EVERY_S = 0.5
"""How often alarms are read, in our time."""


class RolledBackError(Exception):
    """The deployment is rolled back; `str()` is the FailureReason."""


class ClosingError(Exception):
    """The emulator is stopping."""


@dataclass
class Deployment:
    """`change_document(edit)` changes the endpoint's document; `old` is None for a new endpoint."""

    core: Core
    endpoint: str
    traffic: Traffic
    old: Fleet | None
    new: Fleet
    plan: Plan
    change_document: Callable[[Callable[[Document], None]], None]
    closing: threading.Event
    _began_at: float = field(default_factory=names.now)
    _spent_s: float = 0.0
    _role: RoleCredentials | None = None

    def run(self) -> tuple[Fleet | None, Callable[[Document], None]]:
        """Return the fleet that serves in the end, and the edit that ends the deployment in the
        endpoint's document; raise ClosingError if the emulator stops.
        """
        try:
            self._proceed()
        except (RolledBackError, *FAILURES) as error:
            return self._roll_back(str(error))
        except ClosingError:
            raise
        except Exception as bug:  # noqa: BLE001 (an endpoint must never stay as it is; the reason names the bug)
            return self._roll_back(f"InternalServerError: {bug!r}")
        if self.old:
            self._publish_stage("Deleting", ALL_TRAFFIC, self.old)
            self.traffic.retire(self.old)
        return self.new, partial(_end, self.new, "")

    def _proceed(self) -> None:
        self._check_alarms("before the deployment began")
        self._publish_stage("Creating", 0.0)
        started_at = time.monotonic()
        self.new.start()
        self._spend(time.monotonic() - started_at)
        for shift in self.plan.shifts:
            self._publish_stage("ActivatingTraffic", shift.share)
            before = [(self.old, ALL_TRAFFIC - shift.share)] if self.old else []
            self.traffic.route(*before, (self.new, shift.share))
            self._bake(shift)

    def _bake(self, shift: Shift) -> None:
        if not self.old or (shift.bake_s == 0 and not self.plan.alarms):
            return
        self._publish_stage("Baking", shift.share)
        when = f"while the new fleet baked with {shift.share:.0%} of the traffic"
        speed, at = self.core.settings.hosting_speed, time.monotonic()
        ends_at = at + shift.bake_s / speed
        while (left_s := ends_at - time.monotonic()) > 0:
            if self.closing.wait(min(CHECK_EVERY_S, left_s)):
                raise ClosingError
            at, before = time.monotonic(), at
            self._spend((at - before) * speed)
            self._check_alarms(when)
        self._check_alarms(when)

    def _spend(self, seconds: float) -> None:
        self._spent_s += seconds
        if self.plan.timeout_s is not None and self._spent_s > self.plan.timeout_s:
            raise RolledBackError(
                "The deployment took longer than MaximumExecutionTimeoutInSeconds"
                f" ({self.plan.timeout_s:g})."
            )

    def _check_alarms(self, when: str) -> None:
        """Raise RolledBackError for an alarm that rings, or that the execution role cannot read."""
        if not self.plan.alarms:
            return
        self._role = self._role or assume(self.core, self.new.execution_role, self.endpoint)
        cloudwatch = self.core.context.clients("cloudwatch", self._role)
        try:
            answer = cloudwatch.describe_alarms(AlarmNames=list(self.plan.alarms))
        except (ClientError, BotoCoreError) as error:
            raise RolledBackError(
                f"The alarms of AutoRollbackConfiguration cannot be read: {error}"
            ) from error
        alarms = answer["MetricAlarms"]
        missing_names = sorted(set(self.plan.alarms) - {each["AlarmName"] for each in alarms})
        if missing_names:
            raise RolledBackError(
                f"Could not find alarm {', '.join(missing_names)} of AutoRollbackConfiguration."
            )
        alarming = [
            f"{each['AlarmName']} ({each.get('StateReason', '')})"
            for each in alarms
            if each["StateValue"] == "ALARM"
        ]
        if alarming:
            raise RolledBackError(f"Alarm in state ALARM {when}: {', '.join(alarming)}")

    def _publish_stage(self, status: str, share: float, old_fleet: Fleet | None = None) -> None:
        """Write the deployment's stage into the endpoint's description; publish an event."""
        summary = self.new.summary(share, "Baking" if old_fleet else status)
        if instance_type := self.new.variant.get("InstanceType"):
            summary["InstanceType"] = instance_type
        pending = {
            "EndpointConfigName": self.new.config_name,
            "StartTime": self._began_at,
            "ProductionVariants": [summary],
        }

        def edit(document: Document) -> None:
            if old_fleet:
                document["ProductionVariants"] = [old_fleet.summary(status=status)]
            document["PendingDeploymentSummary"] = pending

        self.change_document(edit)

    def _roll_back(self, reason: str) -> tuple[Fleet | None, Callable[[Document], None]]:
        if self.old:
            self.traffic.route((self.old, ALL_TRAFFIC))
            self.change_document(lambda document: document.update(EndpointStatus="RollingBack"))
        self.traffic.retire(self.new)
        rolled_back = f"The deployment of {self.new.config_name} was rolled back. "
        return self.old, partial(_end, self.old, (rolled_back if self.old else "") + reason)


def _end(fleet: Fleet | None, reason: str, document: Document) -> None:
    """Describe an endpoint by the fleet that serves; one without has failed."""
    for key in ("PendingDeploymentSummary", "FailureReason"):
        document.pop(key, None)
    document["EndpointStatus"] = "InService" if fleet else "Failed"
    if fleet:
        document["EndpointConfigName"] = fleet.config_name
        document["ProductionVariants"] = [fleet.summary()]
    if reason:
        document["FailureReason"] = reason
