"""AWS::Scheduler: schedules and the groups they are in."""

from __future__ import annotations

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    gone_is_fine,
    names,
)

SETTINGS = (
    "Description",
    "EndDate",
    "FlexibleTimeWindow",
    "GroupName",
    "KmsKeyArn",
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "StartDate",
    "State",
    "Target",
)


class ScheduleGroup(ResourceType):
    type_name = "AWS::Scheduler::ScheduleGroup"
    properties = names("Name Tags")
    replaced_by = names("Name")

    def create(self, request: Request) -> Created:
        name = request.name("Name", 64)
        arn = request.client("scheduler").create_schedule_group(Name=name, Tags=request.tags())[
            "ScheduleGroupArn"
        ]
        return Created(name, {"Arn": arn, "State": "ACTIVE"})

    def update(self, request: Request) -> Created:
        scheduler, arn = request.client("scheduler"), request.attributes["Arn"]
        request.retag(
            lambda: scheduler.tag_resource(ResourceArn=arn, Tags=request.tags()),
            lambda keys: scheduler.untag_resource(ResourceArn=arn, TagKeys=keys),
        )
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        gone_is_fine(
            lambda: request.client("scheduler").delete_schedule_group(Name=request.physical_id)
        )


class Schedule(ResourceType):
    type_name = "AWS::Scheduler::Schedule"
    properties = frozenset({"Name", *SETTINGS})
    replaced_by = names("Name GroupName")

    def create(self, request: Request) -> Created:
        name = request.name("Name", 64)
        arn = request.client("scheduler").create_schedule(Name=name, **self._wanted(request))[
            "ScheduleArn"
        ]
        return Created(name, {"Arn": arn})

    def update(self, request: Request) -> Created:
        request.client("scheduler").update_schedule(
            Name=request.physical_id, **self._wanted(request)
        )
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        group = request.only("GroupName")
        gone_is_fine(
            lambda: request.client("scheduler").delete_schedule(Name=request.physical_id, **group)
        )

    @staticmethod
    def _wanted(request: Request) -> dict[str, object]:
        """Templates may write numbers as text; the API takes numbers."""
        wanted = request.only(*SETTINGS)
        window = dict(wanted.get("FlexibleTimeWindow", {}))
        if "MaximumWindowInMinutes" in window:
            wanted["FlexibleTimeWindow"] = {
                **window,
                "MaximumWindowInMinutes": int(window["MaximumWindowInMinutes"]),
            }
        target = dict(wanted.get("Target", {}))
        if "RetryPolicy" in target:
            wanted["Target"] = {
                **target,
                "RetryPolicy": {name: int(value) for name, value in target["RetryPolicy"].items()},
            }
        return wanted


TYPES: tuple[ResourceType, ...] = (ScheduleGroup(), Schedule())
