"""Event source mappings of SQS queues: each enabled mapping has a thread.

The thread receives messages as the function's role, invokes the function with a batch and deletes
what was handled. The rest stays in the queue until its visibility timeout; SQS moves it to the
dead-letter queue when it was received too often.
"""

import json
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.context import RoleCredentials
from shoal_local.control.functions.invoker import LAMBDA, error_text
from shoal_local.control.functions.model import Function, invalid
from shoal_local.control.functions.service import Functions
from shoal_local.control.http.protocol import ApiCall
from shoal_local.control.identity.identity import Clients, Identity
from shoal_local.errors import AwsError
from shoal_local.processes import in_thread

QUEUE_ARN = re.compile(r"^arn:aws:sqs:[\w-]+:\d{12}:([\w-]+)$")
DEFAULTS: Mapping[str, Any] = {
    "BatchSize": 10,
    "MaximumBatchingWindowInSeconds": 0,
    "FunctionResponseTypes": [],
    "Enabled": True,
}
UNSUPPORTED = (
    *("FilterCriteria", "DestinationConfig", "StartingPosition", "Topics", "Queues"),
    *("SelfManagedEventSource", "KMSKeyArn"),
)
LONG_POLL_S = 1
NEEDED = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
"""What a function's role must be allowed (developer guide, "Using Lambda with Amazon SQS")."""
PAUSE_AFTER_FAILURE_S = 1.0

log = logging.getLogger(__name__)


@dataclass
class EventSource:
    """One mapping and the thread that polls for it."""

    id: str
    queue_arn: str
    function_arn: str
    settings: dict[str, Any]
    tags: dict[str, str] = field(default_factory=dict)
    modified_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    last_result: str = "No records processed"
    stop: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    """A change waits for the poller, and meanwhile another may be requested."""

    @property
    def arn(self) -> str:
        return f"{self.function_arn.rpartition(':function:')[0]}:event-source-mapping:{self.id}"

    def describe(self) -> dict[str, Any]:
        """Return the Lambda API's EventSourceMappingConfiguration."""
        settings = {name: value for name, value in self.settings.items() if name != "Enabled"}
        return {
            **settings,
            "UUID": self.id,
            "EventSourceArn": self.queue_arn,
            "FunctionArn": self.function_arn,
            "LastModified": self.modified_at,
            "LastProcessingResult": self.last_result,
            "State": "Enabled" if self.settings["Enabled"] else "Disabled",
            "StateTransitionReason": "USER_INITIATED",
            "EventSourceMappingArn": self.arn,
        }


@dataclass
class EventSources:
    """The mappings of the account; `stop` ends their threads, and `close` waits for them."""

    identity: Identity
    clients: Clients
    functions: Functions
    may: Callable[[RoleCredentials, str, str], bool]
    """Whether a role's own policies let it do an action on a resource; Lambda always asks,
    where there is an evaluator.
    """
    _sources: dict[str, EventSource] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        """Return the handlers of operations on event source mappings."""
        return {
            "CreateEventSourceMapping": self._create,
            "UpdateEventSourceMapping": self._update,
            "DeleteEventSourceMapping": self._delete,
            "ListEventSourceMappings": self._list,
        }

    def tags(self, arn: str) -> dict[str, str]:
        """Return the tags of a mapping, which may be changed; raise AwsError when it does not
        exist.
        """
        for source in self._sources.values():
            if source.arn == arn:
                return source.tags
        raise AwsError("ResourceNotFoundException", f"Resource not found: {arn}", 404)

    def stop(self) -> None:
        """Let every poller end after the batch that its function has."""
        self._stopping.set()
        for source in list(self._sources.values()):
            source.stop.set()

    def close(self) -> None:
        """Wait for every poller. The invoker must be closed: a function may take 15 minutes."""
        self.stop()
        for source in list(self._sources.values()):
            self._halt(source)

    def _get(self, call: ApiCall) -> EventSource:
        source = self._sources.get(call.parameters["UUID"])
        if source is None:
            message = "The resource you requested does not exist."
            raise AwsError("ResourceNotFoundException", message, 404)
        return source

    @contextmanager
    def _locked(self, call: ApiCall) -> Iterator[EventSource]:
        """Yield the mapping while nobody else changes it; raise AwsError if it was deleted."""
        with self._get(call).lock:
            yield self._get(call)

    def _create(self, call: ApiCall) -> Mapping[str, Any]:
        request = call.parameters
        queue_arn = request.get("EventSourceArn") or "no EventSourceArn"
        if not QUEUE_ARN.match(queue_arn):
            raise invalid(f"Shoal's emulator maps standard SQS queues only, not {queue_arn}")
        function, settings = self.functions.get(request["FunctionName"]), settings_of(request)
        self._check_visibility(queue_arn, function.timeout_s)
        self._check_role(queue_arn, function)
        tags = dict(request.get("Tags") or {})
        source = EventSource(str(uuid.uuid4()), queue_arn, function.arn, settings, tags)
        self._sources[source.id] = source
        self._run(source)
        return source.describe()

    def _check_role(self, queue_arn: str, function: Function) -> None:
        role = self.identity.service_credentials(function.settings["Role"], function.name, LAMBDA)
        for action in NEEDED:
            if not self.may(role, f"sqs:{action}", queue_arn):
                raise invalid(
                    f"The function execution role does not have permissions to call {action} on SQS"
                )

    def _check_visibility(self, queue_arn: str, timeout_s: int) -> None:
        """Refuse a queue whose messages reappear while the function works, as Lambda does."""
        sqs = self.clients("sqs")
        try:
            attributes = sqs.get_queue_attributes(
                QueueUrl=self._queue_url(sqs, queue_arn), AttributeNames=["VisibilityTimeout"]
            )
        except ClientError as error:
            raise invalid(f"Error occurred while ReceiveMessage: {error}") from error
        visible_s = int(attributes["Attributes"]["VisibilityTimeout"])
        if visible_s < timeout_s:
            raise invalid(
                f"Queue visibility timeout: {visible_s} seconds is less than Function timeout:"
                f" {timeout_s} seconds"
            )

    def _update(self, call: ApiCall) -> Mapping[str, Any]:
        with self._locked(call) as source:
            settings = settings_of(call.parameters, source.settings)
            self._halt(source)
            if call.parameters.get("FunctionName"):
                source.function_arn = self.functions.get(call.parameters["FunctionName"]).arn
            source.settings = settings
            source.modified_at = datetime.now(UTC)
            self._run(source)
            return source.describe()

    def _delete(self, call: ApiCall) -> Mapping[str, Any]:
        with self._locked(call) as source:
            self._halt(source)
            del self._sources[source.id]
            return {**source.describe(), "State": "Deleting"}

    def _list(self, call: ApiCall) -> Mapping[str, Any]:
        function = call.parameters.get("FunctionName")
        function_arn = self.functions.get(function).arn if function else None
        queue_arn = call.parameters.get("EventSourceArn")
        of_function = [
            each for each in self._sources.values() if function_arn in (None, each.function_arn)
        ]
        listed = [each.describe() for each in of_function if queue_arn in (None, each.queue_arn)]
        return {"EventSourceMappings": listed}

    def _run(self, source: EventSource) -> None:
        if source.settings["Enabled"]:
            source.stop = threading.Event()
            name = f"poll {source.queue_arn}"
            source.thread = in_thread(name, self._poll, source, source.stop)

    @staticmethod
    def _halt(source: EventSource) -> None:
        source.stop.set()
        if source.thread is not None:
            source.thread.join()
            source.thread = None

    def _poll(self, source: EventSource, stop: threading.Event) -> None:
        credentials: RoleCredentials | None = None
        role_arn = ""
        while not (stop.is_set() or self._stopping.is_set()):
            try:
                function = self.functions.get(source.function_arn)
                if credentials is None or role_arn != function.settings["Role"]:
                    role_arn = function.settings["Role"]
                    credentials = self.identity.service_credentials(role_arn, function.name, LAMBDA)
                self._once(source, self.clients("sqs", credentials), stop)
            except Exception as error:
                # an enabled mapping polls on after any error
                source.last_result = f"PROBLEM: {error}"
                expected = isinstance(error, (AwsError, ClientError, BotoCoreError))
                trace = None if expected else error
                log.warning("event source mapping %s: %s", source.id, error, exc_info=trace)
                stop.wait(PAUSE_AFTER_FAILURE_S)

    def _once(self, source: EventSource, sqs: Any, stop: threading.Event) -> None:
        url = self._queue_url(sqs, source.queue_arn)
        messages = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=min(10, int(source.settings["BatchSize"])),
            WaitTimeSeconds=LONG_POLL_S,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        ).get("Messages", [])
        if not messages or stop.is_set():
            return
        records = [record(message, source.queue_arn) for message in messages]
        outcome = self.functions.invoke(source.function_arn, {"Records": records})
        failed_ids: set[str] = set()
        if outcome.error is not None:
            failed_ids = {message["MessageId"] for message in messages}
            source.last_result = f"PROBLEM: {error_text(outcome)}"
        else:
            if "ReportBatchItemFailures" in source.settings["FunctionResponseTypes"]:
                failed_ids = failures(json.loads(outcome.payload or "null"), messages)
            counted = f"{len(failed_ids)} of {len(messages)} failed"
            source.last_result = counted if failed_ids else "OK"
        for message in messages:
            if message["MessageId"] not in failed_ids:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def _queue_url(self, sqs: Any, queue_arn: str) -> str:
        return str(sqs.get_queue_url(QueueName=queue_arn.rpartition(":")[2])["QueueUrl"])


def settings_of(request: Mapping[str, Any], old: Mapping[str, Any] = DEFAULTS) -> dict[str, Any]:
    """Return the settings of a request, over the old ones; raise AwsError for one that is not
    emulated.
    """
    for name in UNSUPPORTED:
        if request.get(name):
            raise invalid(f"Shoal's emulator has no event source mappings with {name}")
    names = (*DEFAULTS, "ScalingConfig")
    changes = {name: request[name] for name in names if request.get(name) is not None}
    return {**old, **changes}


def record(message: Mapping[str, Any], queue_arn: str) -> dict[str, Any]:
    """Return a message as Lambda passes it to functions."""
    attributes = {
        name: {key[0].lower() + key[1:]: value for key, value in attribute.items()}
        for name, attribute in message.get("MessageAttributes", {}).items()
    }
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message.get("Attributes", {}),
        "messageAttributes": attributes,
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": queue_arn.split(":")[3],
    }


def failures(payload: Any, messages: list[dict[str, Any]]) -> set[str]:
    """Return the message ids that a partial batch response names.

    A response of no documented form fails the whole batch (Lambda developer guide, "Handling errors
    for an SQS event source", success and failure conditions).
    """
    all_ids = {message["MessageId"] for message in messages}
    try:
        items = (payload or {}).get("batchItemFailures") or []
        failed_ids = {item["itemIdentifier"] for item in items}
    except (AttributeError, KeyError, TypeError):
        return all_ids
    return failed_ids if failed_ids <= all_ids else all_ids
