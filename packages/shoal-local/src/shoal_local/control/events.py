"""EventBridge: match events against moto's rules and deliver them to Lambda functions and SQS
queues.

Events come from PutEvents and from the emulator's services. Threads deliver them, where the
targets' resource policies allow it. Other targets are refused by PutTargets.
"""

import json
import logging
import re
import threading
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

from botocore.exceptions import BotoCoreError, ClientError
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from moto.events.models import Rule, events_backends
from moto.events.utils import EventMessageType

from shoal_local.control.functions.service import Functions
from shoal_local.control.http.guards import Refusal
from shoal_local.control.http.protocol import ApiCall, Guard, Handlers
from shoal_local.control.identity.identity import Clients, Identity
from shoal_local.control.identity.policies import allows
from shoal_local.control.schedule_expressions import Clock, ExpressionError, parse
from shoal_local.errors import AwsError
from shoal_local.faults import Faults
from shoal_local.tables import read_table

_invalid = partial(AwsError, "ValidationException")


def check_pattern(text: str) -> None:
    """Raise AwsError InvalidEventPatternException for what is no pattern."""
    try:
        mistake = best_match(_grammar().iter_errors(json.loads(text)))
        reason = f"{mistake.json_path}: {mistake.message}" if mistake else ""
    except (ValueError, RecursionError) as error:
        reason = f"the pattern is not JSON: {error}"
    if reason:
        raise AwsError(
            "InvalidEventPatternException", f"Event pattern is not valid. Reason: {reason}"
        )


@cache
def _grammar() -> Draft202012Validator:
    return Draft202012Validator(read_table(Path(__file__).with_name("event_patterns.yaml")))


EVENTS = "events.amazonaws.com"
DEFAULT_BUS = "default"
TARGET_MEMBERS = frozenset({"Id", "Arn", "Input", "DeadLetterConfig", "RetryPolicy"})
DELIVERABLE = re.compile(r"^arn:aws:(lambda:[\w-]+:\d{12}:function:|sqs:)")
MAX_THREADS = 8

log = logging.getLogger(__name__)


DueTimes = dict[tuple[str, str], datetime | None]
"""When scheduled rules fire, by a rule's ARN and its expression."""


class Events:
    """The rules and deliveries of an account. Schedules run `speed` times as fast as the clock."""

    def __init__(
        self,
        identity: Identity,
        clients: Clients,
        functions: Functions,
        speed: float,
        faults: Faults,
    ) -> None:
        self._identity, self._clients, self._functions = identity, clients, functions
        self._faults = faults
        self._postponed: dict[str, dict[str, Any]] = {}
        self._due_at: DueTimes = {}
        self._pool = ThreadPoolExecutor(MAX_THREADS, "events")
        self._closing = threading.Event()
        self._clock = Clock(self._fire_due, speed, "rules")
        self._clock.start()

    @property
    def operations(self) -> Handlers:
        return {"PutEvents": self._put_events}

    @property
    def guards(self) -> Mapping[str, Guard]:
        replays = Refusal("does not replay events")
        checks = {"PutTargets": check_targets, "PutRule": check_rule}
        return {**checks, "CreateArchive": replays, "StartReplay": replays}

    def emit(self, entry: Mapping[str, Any]) -> str:
        """Put an event (source, detail-type, detail, resources) on the bus; return its id."""
        event = json.loads(json.dumps(self._event(entry), default=str))
        self._submit_with_faults(event)
        return str(event["id"])

    def _submit_with_faults(self, event: dict[str, Any]) -> None:
        """Deliver an event; where a fault asks for it: never, twice, late, or after the next event
        of the execution.
        """
        execution, kind = str(event["detail"].get("pipelineExecutionArn")), event["detail-type"]
        postponed = self._postponed.pop(execution, None)
        rule = self._faults.hit("event", kind, event["detail"])
        do = rule.do if rule is not None else ""
        if do == "reorder":
            self._postponed[execution] = event
        elif rule is not None and do == "delay":
            later = threading.Timer(rule.seconds, self._submit, (event,))
            later.daemon = True
            later.start()
        for _ in range({"": 1, "duplicate": 2}.get(do, 0)):
            self._submit(event)
        if postponed is not None:
            self._submit(postponed)

    def _submit(self, event: dict[str, Any]) -> None:
        if not self._closing.is_set():
            self._pool.submit(self._route, event)

    def _event(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": entry["detail-type"],
            "source": entry["source"],
            "account": self._identity.account,
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": self._identity.region,
            "resources": list(entry.get("resources", [])),
            "detail": entry["detail"],
        }

    def close(self) -> None:
        """Take no more events, and wait for deliveries under way."""
        self._clock.close()
        self._closing.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _put_events(self, call: ApiCall) -> Mapping[str, Any]:
        results = [self._put_one(entry) for entry in call.parameters["Entries"]]
        return {
            "FailedEntryCount": sum("ErrorCode" in result for result in results),
            "Entries": results,
        }

    def _put_one(self, entry: Mapping[str, Any]) -> dict[str, str]:
        bus = entry.get("EventBusName") or DEFAULT_BUS
        source, detail = entry.get("Source", ""), _parsed_object(entry.get("Detail", ""))
        if bus.rpartition("/")[2] != DEFAULT_BUS:
            code = "NotAuthorizedForSourceException"
            reason = f"Shoal's emulator has the default bus only, not {bus}"
        elif source.startswith("aws."):
            code, reason = "NotAuthorizedForSourceException", "Not authorized for the source."
        elif detail is None:
            code, reason = "MalformedDetail", "Detail is malformed."
        else:
            event = {"source": source, "detail-type": entry.get("DetailType", ""), "detail": detail}
            return {"EventId": self.emit({**event, "resources": entry.get("Resources", [])})}
        return {"ErrorCode": code, "ErrorMessage": reason}

    def _route(self, event: dict[str, Any]) -> None:
        for rule in self._rules():
            try:
                if rule.state == "ENABLED" and matches(rule, event):
                    self._to_targets(rule, event)
            except Exception:  # a rule that breaks must not keep the event from the others
                log.exception("the rule %s", rule.arn)

    def _fire_due(self, now: datetime) -> None:
        """Deliver due scheduled rules to their own targets (user guide, "Scheduled events")."""
        kind = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
        due, self._due_at = due_rules(self._rules(), self._due_at, now)
        for rule in due:
            event = self._event({**kind, "resources": [rule.arn]})
            self._pool.submit(self._to_targets, rule, event)

    def _to_targets(self, rule: Rule, event: Mapping[str, Any]) -> None:
        for target in list(rule.targets):
            self._deliver(rule, target, event)

    def _rules(self) -> list[Rule]:
        backend = events_backends[self._identity.account][self._identity.region]
        return list(backend.event_buses[DEFAULT_BUS].rules.values())

    def _deliver(self, rule: Rule, target: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        payload = json.loads(target["Input"]) if target.get("Input") else event
        try:
            if target["Arn"].startswith("arn:aws:sqs:"):
                self._to_queue(target["Arn"], rule.arn, payload)
            elif self._functions.service_may_invoke(target["Arn"], EVENTS, rule.arn):
                self._functions.invoke_later(target["Arn"], payload)
            else:
                raise _denied("function", "invoke it", rule.arn)
        except (AwsError, ClientError, BotoCoreError) as error:
            self._undelivered(target, rule.arn, payload, str(error))

    def _to_queue(self, queue_arn: str, rule_arn: str, payload: Any) -> None:
        sqs, action = self._clients("sqs"), "sqs:SendMessage"
        url = sqs.get_queue_url(QueueName=queue_arn.rpartition(":")[2])["QueueUrl"]
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])
        policy = json.loads(answer.get("Attributes", {}).get("Policy") or "{}")
        principal = self._identity.service_principal(EVENTS, rule_arn)
        context = {**principal.context, "aws:SecureTransport": "true"}
        if not allows(policy, principal, action, queue_arn, context):
            raise _denied("queue", "send to it", rule_arn)
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps(payload))

    def _undelivered(
        self, target: Mapping[str, Any], rule_arn: str, payload: Any, reason: str
    ) -> None:
        log.warning("event not delivered from %s to %s: %s", rule_arn, target["Arn"], reason)
        dead_letter = (target.get("DeadLetterConfig") or {}).get("Arn")
        if dead_letter and dead_letter != target["Arn"]:
            try:
                self._to_queue(dead_letter, rule_arn, payload)
            except (AwsError, ClientError, BotoCoreError) as error:
                log.warning("dead letter of %s not delivered: %s", rule_arn, error)


def _denied(target: str, act: str, rule_arn: str) -> AwsError:
    reason = f"the {target}'s policy does not let {EVENTS} {act} for {rule_arn}"
    return AwsError("AccessDenied", reason, 403)


def _parsed_object(text: str) -> dict[str, Any] | None:
    """Return a JSON object; None for what is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def matches(rule: Rule, event: dict[str, Any]) -> bool:
    """Return whether the event matches the rule's pattern; a rule without one matches nothing."""
    pattern = rule.event_pattern
    return bool(pattern.get_pattern()) and pattern.matches_event(cast(EventMessageType, event))


def due_rules(
    rules: Iterable[Rule], due_times: DueTimes, now: datetime
) -> tuple[list[Rule], DueTimes]:
    """Return the rules that are due, once however late, and when each is due next.

    A rule with a rate fires for the first time one period after it was put. Rules that were deleted
    or disabled are forgotten.
    """
    due: list[Rule] = []
    next_times: DueTimes = {}
    for rule in rules:
        expression = str(rule.scheduled_expression or "")
        if not expression or rule.state != "ENABLED":
            continue
        times, key = parse(expression, "UTC"), (rule.arn, expression)
        due_at = due_times[key] if key in due_times else times.next(now, now)
        is_due = due_at is not None and now >= due_at
        next_times[key] = times.next(now, now) if is_due else due_at
        due += [rule] if is_due else []
    return due, next_times


def check_targets(call: ApiCall) -> None:
    """Raise AwsError for a target that could not be delivered to."""
    for target in call.parameters.get("Targets") or []:
        if unknown := sorted(target.keys() - TARGET_MEMBERS):
            raise _invalid(
                f"Shoal's emulator has no event targets with {unknown[0]} (target {target['Id']})"
            )
        if not DELIVERABLE.match(target["Arn"]):
            raise _invalid(
                f"Shoal's emulator delivers events to Lambda and SQS only, not {target['Arn']}"
            )
        try:
            json.loads(target.get("Input") or "{}")
        except (ValueError, RecursionError) as error:
            # EventBridge's words, as users quote them
            reason = f"JSON syntax error in input for target {target['Id']}: {error}"
            raise _invalid(reason) from error


def check_rule(call: ApiCall) -> None:
    """Raise AwsError for a wrong pattern, and for a schedule that nothing here would start."""
    if call.parameters.get("EventPattern"):
        check_pattern(call.parameters["EventPattern"])
    if schedule := call.parameters.get("ScheduleExpression"):
        try:
            parse(schedule, "UTC")
        except ExpressionError as error:
            raise _invalid(f"Parameter ScheduleExpression is not valid. {error}") from error
    bus = call.parameters.get("EventBusName") or DEFAULT_BUS
    if bus.rpartition("/")[2] != DEFAULT_BUS:
        raise _invalid(f"Shoal's emulator has the default event bus only, not {bus}")
