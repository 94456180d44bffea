"""AWS::Events: rules and their targets."""

from __future__ import annotations

import json
from dataclasses import replace

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    ignore_missing,
    names,
    undo_on_failure,
)


class EventRule(ResourceType):
    type_name = "AWS::Events::Rule"
    properties = names(
        "Name Description EventPattern State Targets EventBusName RoleArn ScheduleExpression Tags"
    )
    replaced_by = names("Name EventBusName")

    def create(self, request: Request) -> Created:
        name = request.name("Name", 64)
        with undo_on_failure(lambda: self.delete(replace(request, physical_id=name))):
            arn = self._put(request, name)
        return Created(name, {"Arn": arn})

    def update(self, request: Request) -> Created:
        self._put(request, request.physical_id)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        events, name = request.client("events"), request.physical_id
        targets = [target["Id"] for target in request.get("Targets", [])]
        if targets:
            ignore_missing(lambda: events.remove_targets(Rule=name, Ids=targets))
        events.delete_rule(Name=name)

    def _put(self, request: Request, name: str) -> str:
        events = request.client("events")
        pattern = (
            {"EventPattern": json.dumps(request["EventPattern"])}
            if request.get("EventPattern")
            else {}
        )
        settings = request.only(
            "Description", "State", "EventBusName", "RoleArn", "ScheduleExpression"
        )
        arn = events.put_rule(Name=name, **pattern, **settings)["RuleArn"]
        request.retag_resource("events", ResourceARN=arn)
        targets = request.get("Targets", [])
        target_ids = {target["Id"] for target in targets}
        removed = [
            target["Id"]
            for target in request.old.get("Targets", [])
            if target["Id"] not in target_ids
        ]
        if removed:
            events.remove_targets(Rule=name, Ids=removed)
        if targets:
            response = events.put_targets(Rule=name, Targets=targets)
            if response["FailedEntryCount"]:
                raise ResourceError(response["FailedEntries"][0]["ErrorMessage"])
        return str(arn)


TYPES: tuple[ResourceType, ...] = (EventRule(),)
