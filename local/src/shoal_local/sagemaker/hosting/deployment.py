"""One deployment to an endpoint, blue/green: a new fleet is started beside the old one, gets the
traffic by the plan's shares while its alarms are watched, and takes over; or all traffic goes back
to the old one, with the reason.

The deployment's clock runs `Settings.hosting_speed` times as fast as ours while it waits. Work
(starting servers) takes the time it takes.
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
from shoal_local.sagemaker.hosting import variants
from shoal_local.sagemaker.hosting.fleet import Fleet
from shoal_local.sagemaker.hosting.guardrails import WHOLE, Plan, Shift
from shoal_local.sagemaker.hosting.server import ServerFailedError
from shoal_local.sagemaker.hosting.traffic import Traffic
from shoal_local.sagemaker.jobs.storage import DataError
from shoal_local.sagemaker.references import assume
from shoal_local.sagemaker.shapes import Document

FAILURES = (ServerFailedError, DataError, PodError, AwsError)
LOOK_S = 0.5
"""How often alarms are read, in our time."""
_LONGEST_REASON = 1024


class RolledBackError(Exception):
    """The deployment does not go on; `str()` is the FailureReason."""


class ClosingError(Exception):
    """The emulator stops."""


@dataclass
class Deployment:
    """`tell(edit)` changes the endpoint's document and says so in an event.

    `old` is None for a new endpoint.
    """

    core: Core
    endpoint: str
    traffic: Traffic
    old: Fleet | None
    new: Fleet
    plan: Plan
    tell: Callable[[Callable[[Document], None]], None]
    closing: threading.Event
    _began_at: float = field(default_factory=names.now)
    _spent_s: float = 0.0
    _role: RoleCredentials | None = None

    def run(self) -> Fleet | None:
        """The fleet that serves at the end; ClosingError when the emulator stops before that."""
        try:
            self._go()
        except (RolledBackError, *FAILURES) as failed:
            return self._roll_back(str(failed))
        except ClosingError:
            raise
        except Exception as bug:  # noqa: BLE001 (an endpoint must never stay as it is; the reason names the bug)
            return self._roll_back(f"InternalServerError: {bug!r}")
        if self.old:
            self._say("Deleting", WHOLE, self.old)
            self.traffic.retire(self.old.instances())
        self.tell(self._in_service)
        return self.new

    def _go(self) -> None:
        self._look_at_alarms("before the deployment began")
        self._say("Creating", 0.0)
        begun = time.monotonic()
        self.new.start()
        self._spend(time.monotonic() - begun)
        for shift in self.plan.shifts:
            self._say("ActivatingTraffic", shift.share)
            self._shift(shift.share)
            self._bake(shift)

    def _shift(self, share: float) -> None:
        if self.old:
            self.traffic.route((self.old, WHOLE - share), (self.new, share))
        else:
            self.traffic.route((self.new, WHOLE))

    def _bake(self, shift: Shift) -> None:
        if not self.old or (shift.bake_s == 0 and not self.plan.alarms):
            return
        self._say("Baking", shift.share)
        begun, before_s = time.monotonic(), self._spent_s
        when = f"while the new fleet baked with {shift.share:.0%} of the traffic"
        left_s = shift.bake_s / self.core.settings.hosting_speed
        while left_s > 0:
            if self.closing.wait(min(LOOK_S, left_s)):
                raise ClosingError
            passed_s = time.monotonic() - begun
            self._spent_s = before_s
            self._spend(passed_s * self.core.settings.hosting_speed)
            self._look_at_alarms(when)
            left_s = shift.bake_s / self.core.settings.hosting_speed - passed_s
        self._look_at_alarms(when)

    def _spend(self, seconds: float) -> None:
        self._spent_s += seconds
        if self.plan.timeout_s is not None and self._spent_s > self.plan.timeout_s:
            raise RolledBackError(
                "The deployment took longer than MaximumExecutionTimeoutInSeconds"
                f" ({self.plan.timeout_s:g})."
            )

    def _look_at_alarms(self, when: str) -> None:
        """RolledBackError where one is in ALARM, cannot be read, or is not there.

        SageMaker reads them with the execution role.
        """
        if not self.plan.alarms:
            return
        self._role = self._role or assume(
            self.core, self.new.execution_role(), f"SageMaker-{self.endpoint}"
        )
        try:
            found = self.core.context.clients("cloudwatch", self._role).describe_alarms(
                AlarmNames=list(self.plan.alarms)
            )["MetricAlarms"]
        except (ClientError, BotoCoreError) as refused:
            raise RolledBackError(
                f"The alarms of AutoRollbackConfiguration cannot be read: {refused}"
            ) from refused
        missing = sorted(set(self.plan.alarms) - {each["AlarmName"] for each in found})
        if missing:
            raise RolledBackError(
                f"Could not find alarm {', '.join(missing)} of AutoRollbackConfiguration."
            )
        alarming = [
            f"{each['AlarmName']} ({each.get('StateReason', '')})"
            for each in found
            if each["StateValue"] == "ALARM"
        ]
        if alarming:
            raise RolledBackError(f"Alarm in state ALARM {when}: {', '.join(alarming)}")

    def _say(self, status: str, share: float, leaving: Fleet | None = None) -> None:
        """The stage of the deployment, where the endpoint is described and in an event."""

        def edit(document: Document) -> None:
            if leaving:
                document["ProductionVariants"] = variants.described(leaving, status)
            document["PendingDeploymentSummary"] = {
                "EndpointConfigName": self.new.config_name,
                "StartTime": self._began_at,
                "ProductionVariants": variants.pending(
                    self.new, share, status if not leaving else "Baking"
                ),
            }

        self.tell(edit)

    def _roll_back(self, reason: str) -> Fleet | None:
        if self.old:
            self.traffic.route((self.old, WHOLE))
            self.tell(lambda document: document.update(EndpointStatus="RollingBack"))
        self.traffic.retire(self.new.instances())
        self.tell(lambda document: self._failed(document, reason))
        return self.old

    def _failed(self, document: Document, reason: str) -> None:
        """As it was before, with the reason; an endpoint that never served has failed."""
        document.pop("PendingDeploymentSummary", None)
        rolled_back = (
            f"The deployment of {self.new.config_name} was rolled back. " if self.old else ""
        )
        document.update(
            EndpointStatus="InService" if self.old else "Failed",
            FailureReason=f"{rolled_back}{reason}"[:_LONGEST_REASON],
        )
        if self.old:
            document["ProductionVariants"] = variants.described(self.old)

    def _in_service(self, document: Document) -> None:
        document.update(
            EndpointStatus="InService",
            EndpointConfigName=self.new.config_name,
            ProductionVariants=variants.described(self.new),
        )
        for gone in ("PendingDeploymentSummary", "FailureReason"):
            document.pop(gone, None)
