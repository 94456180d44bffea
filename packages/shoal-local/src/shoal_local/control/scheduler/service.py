"""The API of EventBridge Scheduler, and the thread that calls the targets of schedules.

Targets are Lambda functions and SageMaker pipelines; others are refused by name. With a flexible
window, the call comes at its beginning.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from shoal_local.control.http.protocol import ApiCall
from shoal_local.control.identity.clients import Clients
from shoal_local.control.identity.identity import Identity
from shoal_local.control.scheduler.delivery import SCHEDULER, Deliveries
from shoal_local.control.scheduler.schedules import Schedule, new_schedule, times_of
from shoal_local.errors import AwsError
from shoal_local.metrics import Measure

POLL_S = 0.25
DEFAULT = "default"
TARGET = re.compile(r"^arn:aws:(lambda:[\w-]+:\d{12}:function:|sagemaker:[\w-]+:\d{12}:pipeline/)")
Document = dict[str, Any]


class Scheduler:
    """The schedules of one account and region; `speed` is how many of their seconds pass in a
    second of the clock.
    """

    def __init__(
        self, identity: Identity, clients: Clients, measure: Measure, speed: float = 1.0
    ) -> None:
        self._identity = identity
        self._began_at, self._began_s, self._speed = datetime.now(UTC), time.monotonic(), speed
        self._groups: dict[str, Document] = {}
        self._tags: dict[str, dict[str, str]] = {}
        self._schedules: dict[tuple[str, str], Schedule] = {}
        self._lock = threading.RLock()
        self._add_group(DEFAULT)
        self._deliveries = Deliveries(identity, clients, measure, self.now, speed)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="scheduler")
        self._thread.start()

    def now(self) -> datetime:
        """Return the time of the schedules' clock."""
        return self._began_at + timedelta(seconds=(time.monotonic() - self._began_s) * self._speed)

    def close(self) -> None:
        """Call no more targets, and wait for deliveries under way."""
        self._closing.set()
        self._thread.join()
        self._deliveries.close()

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        """Return the handlers by operation; every other operation is refused."""
        handlers = {
            "CreateSchedule": self._create,
            "UpdateSchedule": self._update,
            "GetSchedule": lambda request: self._schedule(request).document,
            "DeleteSchedule": self._delete,
            "ListSchedules": self._list,
            "CreateScheduleGroup": self._create_group,
            "GetScheduleGroup": lambda request: self._group(request["Name"]),
            "DeleteScheduleGroup": self._delete_group,
            "ListScheduleGroups": self._list_groups,
            "TagResource": self._tag,
            "UntagResource": self._untag,
            "ListTagsForResource": self._list_tags,
        }
        return {name: _locked(self._lock, handle) for name, handle in handlers.items()}

    def _run(self) -> None:
        while not self._closing.wait(POLL_S):
            for schedule in self._take_due():
                self._deliveries.start(schedule)

    def _take_due(self) -> list[Schedule]:
        """Return the enabled schedules that are due, as they were, and let each wait for its next
        time. A disabled schedule skips its times.
        """
        with self._lock:
            now = self.now()
            due = {
                key: schedule
                for key, schedule in self._schedules.items()
                if schedule.due_at and schedule.due_at <= now
            }
            self._schedules |= {key: schedule.fired(now) for key, schedule in due.items()}
        return [each for each in due.values() if each.document["State"] == "ENABLED"]

    def _create(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._check_target(request)
        group, name = self._group(request.get("GroupName"))["Name"], request["Name"]
        if (group, name) in self._schedules:
            raise AwsError("ConflictException", f"Schedule {name} already exists.", 409)
        arn = self._arn("schedule", f"{group}/{name}")
        self._schedules[group, name] = new_schedule(arn, group, request, self.now())
        return {"ScheduleArn": arn}

    def _update(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._check_target(request)
        changed = self._schedule(request).changed(request, self.now())
        self._schedules[changed.group, request["Name"]] = changed
        return {"ScheduleArn": changed.arn}

    def _check_target(self, request: Mapping[str, Any]) -> None:
        """Raise AwsError for a wrong expression, for a target that is not emulated, and for a role
        that Scheduler could not assume.

        AWS also checks the role before it keeps a schedule, and the expression before the role
        (recorded by LocalStack, test_scheduler.snapshot.json).
        """
        times_of(request)
        target, group = request["Target"], self._group(request.get("GroupName"))
        if not TARGET.match(target["Arn"]):
            raise AwsError(
                "ValidationException",
                "Shoal's emulator has schedules for functions and pipelines only, not"
                f" {target['Arn']}",
            )
        try:
            role, session = target["RoleArn"], "scheduler-check"
            self._identity.service_credentials(role, session, SCHEDULER, group["Arn"])
        except AwsError as error:
            message = (
                "The execution role you provide must allow AWS EventBridge Scheduler to assume the"
                " role."
            )
            raise AwsError("ValidationException", f"{message} ({error.message})") from error

    def _schedule(self, request: Mapping[str, Any]) -> Schedule:
        group, name = self._group(request.get("GroupName"))["Name"], request["Name"]
        if (group, name) not in self._schedules:
            raise AwsError("ResourceNotFoundException", f"Schedule {name} does not exist.", 404)
        return self._schedules[group, name]

    def _delete(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        del self._schedules[self._schedule(request).group, request["Name"]]
        return {}

    def _list(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        _check_first_page(request)
        if request.get("GroupName"):
            self._group(request["GroupName"])
        summaries = [
            self._schedules[key].summary
            for key in sorted(self._schedules)
            if request.get("GroupName") in (None, key[0])
        ]
        return {
            "Schedules": [
                each
                for each in summaries
                if each["Name"].startswith(request.get("NamePrefix") or "")
                and request.get("State") in (None, each["State"])
            ]
        }

    def _create_group(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        name = request["Name"]
        if name in self._groups:
            raise AwsError("ConflictException", f"Schedule group {name} already exists.", 409)
        arn = self._add_group(name)
        self._tags[arn] = _tag_map(request)
        return {"ScheduleGroupArn": arn}

    def _add_group(self, name: str) -> str:
        now, arn = datetime.now(UTC), self._arn("schedule-group", name)
        times = {"CreationDate": now, "LastModificationDate": now}
        self._groups[name] = {"Arn": arn, "Name": name, "State": "ACTIVE", **times}
        return arn

    def _group(self, name: str | None) -> Document:
        group = self._groups.get(name or DEFAULT)
        if group is None:
            message = f"Schedule group {name} does not exist."
            raise AwsError("ResourceNotFoundException", message, 404)
        return group

    def _delete_group(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Delete a group with its schedules, at once; AWS takes a while."""
        name = self._group(request["Name"])["Name"]
        if name == DEFAULT:
            message = "The default schedule group cannot be deleted."
            raise AwsError("ValidationException", message)
        self._tags.pop(self._groups.pop(name)["Arn"], None)
        for key in [key for key in self._schedules if key[0] == name]:
            del self._schedules[key]
        return {}

    def _list_groups(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        _check_first_page(request)
        prefix = request.get("NamePrefix") or ""
        groups = [group for name, group in self._groups.items() if name.startswith(prefix)]
        return {"ScheduleGroups": groups}

    def _tag(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._tags_of(request).update(_tag_map(request))
        return {}

    def _untag(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        for key in request["TagKeys"]:
            self._tags_of(request).pop(key, None)
        return {}

    def _list_tags(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        tags = self._tags_of(request)
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

    def _tags_of(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Return the tags of a group. Schedules have none (API reference, TagResource)."""
        group = self._group(str(request["ResourceArn"]).rpartition(":schedule-group/")[2])
        return self._tags.setdefault(group["Arn"], {})

    def _arn(self, kind: str, name: str) -> str:
        return f"arn:aws:scheduler:{self._identity.region}:{self._identity.account}:{kind}/{name}"


def _locked(
    lock: threading.RLock, handle: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Callable[[ApiCall], Mapping[str, Any]]:
    """Return a handler of which one request runs at a time."""

    def handle_call(call: ApiCall) -> Mapping[str, Any]:
        with lock:
            return handle(call.parameters)

    return handle_call


def _check_first_page(request: Mapping[str, Any]) -> None:
    """Raise AwsError for a token: no list here has a second page."""
    if request.get("NextToken"):
        raise AwsError("ValidationException", "Invalid NextToken.")


def _tag_map(request: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in request.get("Tags") or []}
