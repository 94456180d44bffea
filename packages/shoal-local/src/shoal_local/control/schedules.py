"""The schedules of EventBridge Scheduler: moto keeps them, and a thread here delivers them.

Targets are Lambda functions and SageMaker pipelines; others are refused by name. With a flexible
window, the call comes at its beginning. A target is called with the schedule's role, again after
AWS's errors; what failed goes to the dead-letter queue.
"""

import logging
import re
import threading
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from moto.scheduler.models import EventBridgeSchedulerBackend, Schedule, scheduler_backends

from shoal_local.control.http.protocol import ApiCall, Guard
from shoal_local.control.identity.identity import Clients, Identity, error_of
from shoal_local.control.schedule_expressions import Clock, ExpressionError, parse
from shoal_local.errors import AwsError

SCHEDULER = "scheduler.amazonaws.com"
DEFAULT_GROUP = "default"
TARGET = re.compile(r"^arn:aws:(lambda:[\w-]+:\d{12}:function:|sagemaker:[\w-]+:\d{12}:pipeline/)")
# Settings that moto would keep and nobody honour.
UNSUPPORTED = ("StartDate", "EndDate", "KmsKeyArn", "ActionAfterCompletion")
MAX_THREADS = 8
MAX_PAUSE_S = 60.0
THROTTLED = 429
DEFAULT_RETRIES = {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185}

_invalid = partial(AwsError, "ValidationException")

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


class Scheduler:
    """The schedules of an account in a region; `speed` of their seconds pass in one second."""

    def __init__(self, identity: Identity, clients: Clients, speed: float) -> None:
        self._identity, self._clients, self._speed = identity, clients, speed
        self._waiting: dict[tuple[str, float], tuple[tuple[str, str], datetime | None]] = {}
        self._pool = ThreadPoolExecutor(MAX_THREADS, "scheduler")
        self._closing = threading.Event()
        self._clock = Clock(self._call_due, speed, "scheduler")
        self._clock.start()

    def close(self) -> None:
        """Call no more targets, and wait for deliveries under way."""
        self._clock.close()
        self._closing.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    @property
    def guards(self) -> dict[str, Guard]:
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
        before, self._waiting = self._waiting, {}
        groups = list(self._kept.schedule_groups.values())
        for schedule in [each for group in groups for each in list(group.schedules.values())]:
            expression = schedule.schedule_expression, schedule.schedule_expression_timezone
            key = schedule.arn, schedule.creation_date
            old_expression, due_at = before.get(key, (None, None))
            try:
                times, since = parse(*expression), self._clock.of(schedule.creation_date)
                if old_expression != expression:
                    # a new rate is due at once, a changed one still counts from the creation (API
                    # reference, UpdateSchedule)
                    due_at = times.next(since, now if old_expression else since - now.resolution)
                self._waiting[key] = expression, due_at
                if due_at is None or due_at > now:
                    continue
                self._waiting[key] = expression, times.next(since, now)
            except Exception:  # the other schedules go on
                log.exception("%s cannot be followed", schedule.arn)
                continue
            if schedule.state == "ENABLED":
                self._pool.submit(self._deliver, DueCall(schedule.arn, schedule.target, due_at))

    def _deliver(self, schedule: DueCall) -> None:
        """Try as often and as long as the schedule's retry policy says."""
        policy = {**DEFAULT_RETRIES, **schedule.target.get("RetryPolicy", {})}
        began, attempt = self._clock.now(), 0
        while True:
            attempt += 1
            error = self._attempt(schedule, attempt)
            if error is None:
                return
            age_s = (self._clock.now() - began).total_seconds()
            spent = (
                attempt > policy["MaximumRetryAttempts"]
                or age_s >= policy["MaximumEventAgeInSeconds"]
            )
            pause_s = min(2.0**attempt, MAX_PAUSE_S) / self._speed
            if spent or not is_retryable(error) or self._closing.wait(pause_s):
                break
        self._give_up(schedule, attempt, error)

    def _attempt(self, schedule: DueCall, attempt: int) -> AwsError | None:
        """Start the pipeline, or invoke the function without waiting for it; return the error, or
        None.
        """
        target = schedule.target
        parameters = (target.get("SageMakerPipelineParameters") or {}).get("PipelineParameterList")
        try:
            if ":pipeline/" in target["Arn"]:
                self._client("sagemaker", schedule).start_pipeline_execution(
                    PipelineName=target["Arn"],
                    PipelineParameters=parameters or [],
                    ClientRequestToken=uuid.uuid4().hex,
                )
            else:
                self._client("lambda", schedule).invoke(
                    FunctionName=target["Arn"],
                    InvocationType="Event",
                    Payload=render_input(schedule, attempt),
                )
        except (AwsError, ClientError, BotoCoreError) as error:
            refusal = error_of(error)
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
        account, name = queue.split(":")[4:]
        place = {"QueueName": name, "QueueOwnerAWSAccountId": account}
        try:
            self._client("sqs", schedule).send_message(
                QueueUrl=self._clients("sqs").get_queue_url(**place)["QueueUrl"],
                MessageBody=render_input(schedule, 1),
                MessageAttributes=attributes,
            )
        except (AwsError, ClientError, BotoCoreError) as failure:
            log.warning("dead letter of %s not delivered: %s", schedule.arn, failure)

    def _client(self, service: str, schedule: DueCall) -> Any:
        """Return a client with the schedule's role."""
        role, session = schedule.target["RoleArn"], f"scheduler-{uuid.uuid4().hex}"
        return self._clients(
            service,
            self._identity.service_credentials(role, session, SCHEDULER, schedule.group_arn),
        )

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
        target, group = request["Target"], request.get("GroupName") or DEFAULT_GROUP
        group_arn = self._group_arn(group)
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
        arn = self._group_arn(call.parameters["Name"])
        if call.parameters["Name"] == DEFAULT_GROUP:
            raise _invalid("The default schedule group cannot be deleted.")
        self._kept.tagger.delete_all_tags_for_resource(arn)  # moto keeps them for a group to come


def is_retryable(error: AwsError) -> bool:
    """Return whether the next attempt may succeed: AWS's errors pass, a wrong role stays wrong."""
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


_update_by_moto = Schedule.update


def update(schedule: Schedule, **settings: Any) -> None:
    """Change a schedule; one whose state the request leaves out is enabled, as on AWS."""
    _update_by_moto(schedule, **{**settings, "state": settings["state"] or "ENABLED"})


PATCHES: tuple[tuple[object, str, Any], ...] = ((Schedule, "update", update),)
