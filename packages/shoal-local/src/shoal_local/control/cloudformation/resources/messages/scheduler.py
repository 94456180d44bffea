"""AWS::Scheduler: schedules and their groups."""

from __future__ import annotations

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
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
        request.retag_resource("scheduler", ResourceArn=request.attributes["Arn"])
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("scheduler").delete_schedule_group(Name=request.physical_id)


class Schedule(ResourceType):
    type_name = "AWS::Scheduler::Schedule"
    properties = frozenset({"Name", *SETTINGS})
    replaced_by = names("Name GroupName")

    def create(self, request: Request) -> Created:
        name = request.name("Name", 64)
        arn = request.client("scheduler").create_schedule(Name=name, **self._settings(request))[
            "ScheduleArn"
        ]
        return Created(name, {"Arn": arn})

    def update(self, request: Request) -> Created:
        request.client("scheduler").update_schedule(
            Name=request.physical_id, **self._settings(request)
        )
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        group = request.only("GroupName")
        request.client("scheduler").delete_schedule(Name=request.physical_id, **group)

    @staticmethod
    def _settings(request: Request) -> dict[str, object]:
        """Return the settings with numbers, which templates may write as text."""
        settings = request.only(*SETTINGS)
        window = dict(settings.get("FlexibleTimeWindow", {}))
        if "MaximumWindowInMinutes" in window:
            settings["FlexibleTimeWindow"] = {
                **window,
                "MaximumWindowInMinutes": int(window["MaximumWindowInMinutes"]),
            }
        target = dict(settings.get("Target", {}))
        if "RetryPolicy" in target:
            settings["Target"] = {
                **target,
                "RetryPolicy": {name: int(value) for name, value in target["RetryPolicy"].items()},
            }
        return settings


TYPES: tuple[ResourceType, ...] = (ScheduleGroup(), Schedule())
