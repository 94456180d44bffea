"""Deliver due schedules: call the target with the schedule's role, retry after AWS's errors, and
send what failed to the dead-letter queue.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.context import RoleCredentials
from shoal_local.control.identity.clients import Clients
from shoal_local.control.identity.identity import Identity, error_of
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
