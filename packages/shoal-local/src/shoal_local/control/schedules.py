"""The schedules of EventBridge Scheduler: moto keeps them, and a thread here delivers them.

Targets are Lambda functions and SageMaker pipelines; others are refused by name. With a flexible
window, the call comes at its beginning. A target is called with the schedule's role, again after
AWS's errors; what failed goes to the dead-letter queue.
"""

import logging
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from moto.scheduler.models import EventBridgeSchedulerBackend, Schedule, scheduler_backends

from shoal_local.context import RoleCredentials
from shoal_local.control.http.protocol import ApiCall, Guard
from shoal_local.control.identity.identity import Clients, Identity, error_of
from shoal_local.control.schedule_expressions import Clock, ExpressionError, parse
from shoal_local.errors import AwsError

SCHEDULER = "scheduler.amazonaws.com"
MAX_THREADS = 8
MAX_PAUSE_S = 60.0
THROTTLED = 429
DEFAULT_RETRIES = {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DueCall:
    """A call of a schedule's target, for the time `due_at` of the schedules' clock."""

    arn: str
    target: Mapping[str, Any]
    due_at: datetime

    @property
    def group_arn(self) -> str:
        """Return the source ARN with which Scheduler assumes the schedule's role."""
        return self.arn.rpartition("/")[0].replace(":schedule/", ":schedule-group/")


class Deliveries:
    """The deliveries of one account. `now` is the schedules' clock, which runs `speed` times as
    fast as the machine's.
    """

    def __init__(
        self,
        identity: Identity,
        clients: Clients,
        now: Callable[[], datetime],
        speed: float,
    ) -> None:
        self._identity, self._clients = identity, clients
        self._now, self._speed = now, speed
        self._pool = ThreadPoolExecutor(MAX_THREADS, "scheduler")
        self._closing = threading.Event()

    def start(self, schedule: DueCall) -> None:
        """Deliver a schedule on a thread of the pool."""
        if not self._closing.is_set():
            self._pool.submit(self._deliver, schedule)

    def close(self) -> None:
        self._closing.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _deliver(self, schedule: DueCall) -> None:
        """Try as often and as long as the schedule's retry policy says."""
        policy = {**DEFAULT_RETRIES, **schedule.target.get("RetryPolicy", {})}
        began, attempt = self._now(), 0
        while True:
            attempt += 1
            error = self._attempt(schedule, attempt)
            if error is None:
                return
            age_s = (self._now() - began).total_seconds()
            spent = (
                attempt > policy["MaximumRetryAttempts"]
                or age_s >= policy["MaximumEventAgeInSeconds"]
            )
            pause_s = min(2.0**attempt, MAX_PAUSE_S) / self._speed
            if spent or not is_retryable(error) or self._closing.wait(pause_s):
                break
        self._give_up(schedule, attempt, error)

    def _attempt(self, schedule: DueCall, attempt: int) -> AwsError | None:
        """Call the target once; return the error, or None."""
        try:
            payload = render_input(schedule, attempt)
            call_target(self._clients, self._credentials(schedule), schedule, payload)
        except ClientError as error:
            refusal = error_of(error)
        except BotoCoreError as error:
            refusal = AwsError("InternalFailure", str(error), 500)
        except AwsError as error:
            refusal = error
        else:
            return None
        log.warning(
            "schedule %s, attempt %d: %s: %s", schedule.arn, attempt, refusal.code, refusal.message
        )
        return refusal

    def _give_up(self, schedule: DueCall, attempts: int, error: AwsError) -> None:
        queue = (schedule.target.get("DeadLetterConfig") or {}).get("Arn")
        if not queue:
            return
        reasons = {
            "ERROR_CODE": error.code,
            "ERROR_MESSAGE": error.message,
            "RETRY_ATTEMPTS": str(attempts - 1),
            "SCHEDULE_ARN": schedule.arn,
        }
        attributes = {
            key: {"DataType": "String", "StringValue": value} for key, value in reasons.items()
        }
        try:
            self._send(schedule, queue, attributes)
        except (AwsError, ClientError, BotoCoreError) as failure:
            log.warning("dead letter of %s not delivered: %s", schedule.arn, failure)

    def _send(self, schedule: DueCall, queue_arn: str, attributes: Mapping[str, Any]) -> None:
        sqs = self._clients("sqs", self._credentials(schedule))
        account, name = queue_arn.split(":")[4:]
        url = self._clients("sqs").get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)[
            "QueueUrl"
        ]
        sqs.send_message(
            QueueUrl=url, MessageBody=render_input(schedule, 1), MessageAttributes=attributes
        )

    def _credentials(self, schedule: DueCall) -> RoleCredentials:
        role, session = schedule.target["RoleArn"], f"scheduler-{uuid.uuid4().hex}"
        return self._identity.service_credentials(role, session, SCHEDULER, schedule.group_arn)


def is_retryable(error: AwsError) -> bool:
    """Return whether the next attempt may succeed. Only errors of AWS pass; a wrong role or target
    stays wrong.
    """
    return error.http_status >= 500 or error.http_status == THROTTLED


def render_input(schedule: DueCall, attempt: int) -> str:
    """Return the target's input with the context attributes filled in (user guide, "Adding context
    attributes").
    """
    text = str(schedule.target.get("Input") or "{}")
    context = {
        "schedule-arn": schedule.arn,
        "scheduled-time": f"{schedule.due_at:%Y-%m-%dT%H:%M:%SZ}",
        "execution-id": uuid.uuid4().hex[:16],
        "attempt-number": str(attempt),
    }
    for name, value in context.items():
        text = text.replace(f"<aws.scheduler.{name}>", value)
    return text


def call_target(
    clients: Clients, credentials: RoleCredentials, schedule: DueCall, payload: str
) -> None:
    """Start the pipeline, or invoke the function without waiting for it."""
    target = schedule.target
    if target["Arn"].startswith("arn:aws:lambda:"):
        clients("lambda", credentials).invoke(
            FunctionName=target["Arn"], InvocationType="Event", Payload=payload
        )
        return
    parameters = (target.get("SageMakerPipelineParameters") or {}).get("PipelineParameterList", [])
    clients("sagemaker", credentials).start_pipeline_execution(
        PipelineName=target["Arn"],
        PipelineParameters=parameters,
        ClientRequestToken=uuid.uuid4().hex,
    )


_invalid = partial(AwsError, "ValidationException")


DEFAULT = "default"
TARGET = re.compile(r"^arn:aws:(lambda:[\w-]+:\d{12}:function:|sagemaker:[\w-]+:\d{12}:pipeline/)")
# Settings that moto would keep and nobody honour.
UNSUPPORTED = ("StartDate", "EndDate", "KmsKeyArn", "ActionAfterCompletion")


@dataclass(frozen=True)
class Appointment:
    """When a schedule is due, on the schedules' clock; `key` is what that follows from."""

    key: tuple[float, str, str]
    due_at: datetime | None


class Scheduler:
    """The schedules of one account and region; `speed` is how many of their seconds pass in a
    second of the clock.
    """

    def __init__(self, identity: Identity, clients: Clients, speed: float = 1.0) -> None:
        self._identity = identity
        self._appointments: dict[str, Appointment] = {}
        self._clock = Clock(self._call_due, speed, "scheduler")
        self._deliveries = Deliveries(identity, clients, self._clock.now, speed)
        self._clock.start()

    def close(self) -> None:
        """Call no more targets, and wait for deliveries under way."""
        self._clock.close()
        self._deliveries.close()

    @property
    def guards(self) -> dict[str, Guard]:
        """Return the checks before moto gets a request."""
        return {
            "CreateSchedule": self._check_schedule,
            "UpdateSchedule": self._check_schedule,
            "CreateScheduleGroup": self._check_new_group,
            "DeleteScheduleGroup": self._check_old_group,
        }

    @property
    def _kept(self) -> EventBridgeSchedulerBackend:
        return scheduler_backends[self._identity.account][self._identity.region]

    def _call_due(self, now: datetime) -> None:
        """Start the calls that are due, and let each schedule wait for its next time. A disabled
        schedule skips its times, and a late one those that have passed.
        """
        appointments = dict[str, Appointment]()
        groups = list(self._kept.schedule_groups.values())
        for schedule in [each for group in groups for each in list(group.schedules.values())]:
            try:
                appointments[schedule.arn], due_at = self._next(schedule, now)
            except Exception:  # the other schedules go on
                log.exception("%s cannot be followed", schedule.arn)
                continue
            if due_at and schedule.state == "ENABLED":
                self._deliveries.start(DueCall(schedule.arn, schedule.target, due_at))
        self._appointments = appointments

    def _next(self, schedule: Schedule, now: datetime) -> tuple[Appointment, datetime | None]:
        """Return what the schedule waits for, and the time that has come, if one has."""
        expression, zone = schedule.schedule_expression, schedule.schedule_expression_timezone
        times, since = parse(expression, zone), self._clock.of(schedule.creation_date)
        key, old = (schedule.creation_date, expression, zone), self._appointments.get(schedule.arn)
        if old is not None and old.key == key:
            due_at = old.due_at
        else:
            # a new rate is due at once, a changed one still counts from the creation (API
            # reference, UpdateSchedule)
            is_new = old is None or old.key[0] != key[0]
            due_at = times.next(since, since - datetime.resolution if is_new else now)
        if due_at is None or due_at > now:
            return Appointment(key, due_at), None
        return Appointment(key, times.next(since, now)), due_at

    def _check_schedule(self, call: ApiCall) -> None:
        """Raise AwsError for a wrong expression, for what is not emulated, and for a role that
        Scheduler could not assume.

        AWS also checks the role before it keeps a schedule, and the expression before the role
        (recorded by LocalStack, test_scheduler.snapshot.json).
        """
        request = call.parameters
        for name in UNSUPPORTED:
            if request.get(name) is not None:
                raise _invalid(f"Shoal's emulator has no schedules with {name}")
        try:
            zone = request.get("ScheduleExpressionTimezone") or "UTC"
            parse(request["ScheduleExpression"], zone)
        except ExpressionError as error:
            raise _invalid(str(error)) from error
        target, group_arn = request["Target"], self._group_arn(request.get("GroupName") or DEFAULT)
        if not TARGET.match(target["Arn"]):
            raise _invalid(
                "Shoal's emulator has schedules for functions and pipelines only, not"
                f" {target['Arn']}"
            )
        try:
            role, session = target["RoleArn"], "scheduler-check"
            self._identity.service_credentials(role, session, SCHEDULER, group_arn)
        except AwsError as error:
            message = (
                "The execution role you provide must allow AWS EventBridge Scheduler to assume the"
                " role."
            )
            raise _invalid(f"{message} ({error.message})") from error

    def _group_arn(self, name: str) -> str:
        if name not in self._kept.schedule_groups:
            message = f"Schedule group {name} does not exist."
            raise AwsError("ResourceNotFoundException", message, 404)
        return self._kept.schedule_groups[name].arn

    def _check_new_group(self, call: ApiCall) -> None:
        """Refuse a group that exists, which moto would replace by an empty one."""
        name = call.parameters["Name"]
        if name in self._kept.schedule_groups:
            raise AwsError("ConflictException", f"Schedule group {name} already exists.", 409)

    def _check_old_group(self, call: ApiCall) -> None:
        name = call.parameters["Name"]
        arn = self._group_arn(name)
        if name == DEFAULT:
            raise _invalid("The default schedule group cannot be deleted.")
        self._kept.tagger.delete_all_tags_for_resource(arn)  # moto keeps them for a group to come


_update_by_moto = Schedule.update


def update(schedule: Schedule, **settings: Any) -> None:
    """Change a schedule; one whose state the request leaves out is enabled, as on AWS."""
    _update_by_moto(schedule, **{**settings, "state": settings["state"] or "ENABLED"})


PATCHES: tuple[tuple[object, str, Any], ...] = ((Schedule, "update", update),)
