"""One blue/green deployment to an endpoint.

A new fleet is started next to the old one and gets the traffic by the plan's shares while its
alarms are watched. Then it takes over; or all traffic goes back to the old fleet, with the reason.

The deployment's clock runs `Settings.hosting_speed` times as fast as ours while it waits. Work,
such as starting servers, takes the time it takes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.context import RoleCredentials
from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.container.launch import PodError
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting.fleet import Fleet
from shoal_local.sagemaker.hosting.guardrails import ALL_TRAFFIC, Plan, Shift
from shoal_local.sagemaker.hosting.server import ServerFailedError
from shoal_local.sagemaker.hosting.traffic import Traffic
from shoal_local.sagemaker.jobs.base.runtime_build import BuildStoppedError, RuntimeBuildError
from shoal_local.sagemaker.jobs.base.storage import DataError
from shoal_local.sagemaker.references import assume
from shoal_local.sagemaker.shapes import Document

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
    """`change_document(edit)` changes the endpoint's document and publishes an event.

    `old` is None for a new endpoint.
    """

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

    def run(self) -> Fleet | None:
        """Return the fleet that serves at the end; raise ClosingError if the emulator stops before
        that.
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
        self.change_document(self._end_in_service)
        return self.new

    def _proceed(self) -> None:
        self._check_alarms("before the deployment began")
        self._publish_stage("Creating", 0.0)
        started_at = time.monotonic()
        self.new.start()
        self._spend(time.monotonic() - started_at)
        for shift in self.plan.shifts:
            self._publish_stage("ActivatingTraffic", shift.share)
            self._shift(shift.share)
            self._bake(shift)

    def _shift(self, share: float) -> None:
        if self.old:
            self.traffic.route((self.old, ALL_TRAFFIC - share), (self.new, share))
        else:
            self.traffic.route((self.new, ALL_TRAFFIC))

    def _bake(self, shift: Shift) -> None:
        if not self.old or (shift.bake_s == 0 and not self.plan.alarms):
            return
        self._publish_stage("Baking", shift.share)
        started_at, before_s = time.monotonic(), self._spent_s
        when = f"while the new fleet baked with {shift.share:.0%} of the traffic"
        left_s = shift.bake_s / self.core.settings.hosting_speed
        while left_s > 0:
            if self.closing.wait(min(CHECK_EVERY_S, left_s)):
                raise ClosingError
            passed_s = time.monotonic() - started_at
            self._spent_s = before_s
            self._spend(passed_s * self.core.settings.hosting_speed)
            self._check_alarms(when)
            left_s = shift.bake_s / self.core.settings.hosting_speed - passed_s
        self._check_alarms(when)

    def _spend(self, seconds: float) -> None:
        self._spent_s += seconds
        if self.plan.timeout_s is not None and self._spent_s > self.plan.timeout_s:
            raise RolledBackError(
                "The deployment took longer than MaximumExecutionTimeoutInSeconds"
                f" ({self.plan.timeout_s:g})."
            )

    def _check_alarms(self, when: str) -> None:
        """Raise RolledBackError if an alarm is in ALARM, cannot be read, or does not exist.

        SageMaker reads alarms with the execution role.
        """
        if not self.plan.alarms:
            return
        self._role = self._role or assume(
            self.core, self.new.execution_role, f"SageMaker-{self.endpoint}"
        )
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
        """Write the stage of the deployment into the endpoint's description, and publish an
        event.
        """

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

    def _roll_back(self, reason: str) -> Fleet | None:
        if self.old:
            self.traffic.route((self.old, ALL_TRAFFIC))
            self.change_document(lambda document: document.update(EndpointStatus="RollingBack"))
        self.traffic.retire(self.new)
        self.change_document(lambda document: self._end_rolled_back(document, reason))
        return self.old

    def _end_rolled_back(self, document: Document, reason: str) -> None:
        """Describe the endpoint as before, with the reason. An endpoint that never served has
        failed.
        """
        document.pop("PendingDeploymentSummary", None)
        rolled_back = (
            f"The deployment of {self.new.config_name} was rolled back. " if self.old else ""
        )
        document.update(
            EndpointStatus="InService" if self.old else "Failed",
            FailureReason=f"{rolled_back}{reason}",
        )
        if self.old:
            document["ProductionVariants"] = [self.old.summary()]

    def _end_in_service(self, document: Document) -> None:
        document.update(
            EndpointStatus="InService",
            EndpointConfigName=self.new.config_name,
            ProductionVariants=[self.new.summary()],
        )
        for key in ("PendingDeploymentSummary", "FailureReason"):
            document.pop(key, None)
