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
from shoal_local.control.scheduler.store import Group, Schedule, Store, times_of
from shoal_local.errors import AwsError
from shoal_local.metrics import Measure

POLL_S = 0.25
PAGE_SIZE = 100
TARGET = re.compile(r"^arn:aws:(lambda:[\w-]+:\d{12}:function:|sagemaker:[\w-]+:\d{12}:pipeline/)")


class Scheduler:
    """The schedules of one account and region; `speed` is how many of their seconds pass in a
    second of the clock.
    """

    def __init__(
        self, identity: Identity, clients: Clients, measure: Measure, speed: float = 1.0
    ) -> None:
        self._identity = identity
        self._began_at, self._began_s, self._speed = datetime.now(UTC), time.monotonic(), speed
        self.store = Store(identity.account, identity.region, self.now)
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
        return {
            "CreateSchedule": self._create,
            "UpdateSchedule": self._update,
            "GetSchedule": lambda call: describe(
                self.store.get(call.parameters.get("GroupName"), call.parameters["Name"])
            ),
            "DeleteSchedule": self._delete,
            "ListSchedules": self._list,
            "CreateScheduleGroup": self._create_group,
            "GetScheduleGroup": lambda call: describe_group(
                self.store.group(call.parameters["Name"])
            ),
            "DeleteScheduleGroup": self._delete_group,
            "ListScheduleGroups": self._list_groups,
            "TagResource": self._tag,
            "UntagResource": self._untag,
            "ListTagsForResource": lambda call: {"Tags": _tag_list(self._tagged(call).tags)},
        }

    def _run(self) -> None:
        while not self._closing.wait(POLL_S):
            for schedule in self.store.take_due():
                self._deliveries.start(schedule)

    def _create(self, call: ApiCall) -> Mapping[str, Any]:
        self._check_target(call.parameters)
        return {"ScheduleArn": self.store.create(call.parameters).arn}

    def _update(self, call: ApiCall) -> Mapping[str, Any]:
        self._check_target(call.parameters)
        return {"ScheduleArn": self.store.update(call.parameters).arn}

    def _check_target(self, request: Mapping[str, Any]) -> None:
        """Raise AwsError for a wrong expression, for a target that is not emulated, and for a role
        that Scheduler could not assume.

        AWS also checks the role before it keeps a schedule, and the expression before the role
        (recorded by LocalStack, test_scheduler.snapshot.json).
        """
        times_of(request)
        target, group = request["Target"], self.store.group(request.get("GroupName") or "default")
        if not TARGET.match(target["Arn"]):
            raise AwsError(
                "ValidationException",
                "Shoal's emulator has schedules for functions and pipelines only, not"
                f" {target['Arn']}",
            )
        try:
            self._identity.service_credentials(
                target["RoleArn"], "scheduler-check", SCHEDULER, group.arn
            )
        except AwsError as error:
            message = (
                "The execution role you provide must allow AWS EventBridge Scheduler to assume the"
                " role."
            )
            raise AwsError("ValidationException", f"{message} ({error.message})") from error

    def _delete(self, call: ApiCall) -> Mapping[str, Any]:
        self.store.delete(call.parameters.get("GroupName"), call.parameters["Name"])
        return {}

    def _list(self, call: ApiCall) -> Mapping[str, Any]:
        request = call.parameters
        if request.get("GroupName"):
            self.store.group(request["GroupName"])
        schedules = [
            summary(schedule)
            for schedule in self.store.all()
            if request.get("GroupName") in (None, schedule.group)
            and schedule.name.startswith(request.get("NamePrefix") or "")
            and request.get("State") in (None, schedule.settings["State"])
        ]
        return _page("Schedules", schedules, request)

    def _create_group(self, call: ApiCall) -> Mapping[str, Any]:
        return {
            "ScheduleGroupArn": (
                self.store.create_group(call.parameters["Name"], _tag_map(call.parameters)).arn
            )
        }

    def _delete_group(self, call: ApiCall) -> Mapping[str, Any]:
        self.store.delete_group(call.parameters["Name"])
        return {}

    def _list_groups(self, call: ApiCall) -> Mapping[str, Any]:
        prefix = call.parameters.get("NamePrefix") or ""
        groups = [
            describe_group(group) for group in self.store.groups() if group.name.startswith(prefix)
        ]
        return _page("ScheduleGroups", groups, call.parameters)

    def _tag(self, call: ApiCall) -> Mapping[str, Any]:
        group = self._tagged(call)
        self.store.retag(group, {**group.tags, **_tag_map(call.parameters)})
        return {}

    def _untag(self, call: ApiCall) -> Mapping[str, Any]:
        group = self._tagged(call)
        self.store.retag(
            group,
            {
                key: value
                for key, value in group.tags.items()
                if key not in call.parameters["TagKeys"]
            },
        )
        return {}

    def _tagged(self, call: ApiCall) -> Group:
        """Return the group of an ARN. Groups have tags, schedules do not (API reference,
        TagResource).
        """
        return self.store.group(
            str(call.parameters["ResourceArn"]).rpartition(":schedule-group/")[2]
        )


def describe(schedule: Schedule) -> dict[str, Any]:
    """Return the answer of GetSchedule."""
    times = {"CreationDate": schedule.created_at, "LastModificationDate": schedule.modified_at}
    return {
        "Arn": schedule.arn,
        "GroupName": schedule.group,
        "Name": schedule.name,
        **schedule.settings,
        **times,
    }


def summary(schedule: Schedule) -> dict[str, Any]:
    """Return an entry of ListSchedules."""
    times = {"CreationDate": schedule.created_at, "LastModificationDate": schedule.modified_at}
    identity = {
        "Arn": schedule.arn,
        "GroupName": schedule.group,
        "Name": schedule.name,
        "State": schedule.settings["State"],
    }
    return {**identity, "Target": {"Arn": schedule.settings["Target"]["Arn"]}, **times}


def describe_group(group: Group) -> dict[str, Any]:
    return {
        "Arn": group.arn,
        "Name": group.name,
        "State": "ACTIVE",
        "CreationDate": group.created_at,
        "LastModificationDate": group.created_at,
    }


def _page(name: str, items: list[dict[str, Any]], request: Mapping[str, Any]) -> dict[str, Any]:
    token = request.get("NextToken") or "0"
    if not token.isdecimal():
        raise AwsError("ValidationException", "Invalid NextToken.")
    start, size = int(token), int(request.get("MaxResults") or PAGE_SIZE)
    next_page = {"NextToken": str(start + size)} if start + size < len(items) else {}
    return {name: items[start : start + size], **next_page}


def _tag_map(request: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in request.get("Tags") or []}


def _tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
