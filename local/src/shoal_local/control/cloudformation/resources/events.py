"""AWS::Events: rules and their targets."""

from __future__ import annotations

import json
from dataclasses import replace

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    gone_is_fine,
    names,
    undone_on_failure,
)


class EventRule(ResourceType):
    type_name = "AWS::Events::Rule"
    properties = names(
        "Name Description EventPattern State Targets EventBusName RoleArn ScheduleExpression Tags"
    )
    replaced_by = names("Name EventBusName")

    def create(self, request: Request) -> Created:
        name = request.name("Name", 64)
        with undone_on_failure(lambda: self.delete(replace(request, physical_id=name))):
            arn = self._put(request, name)
        return Created(name, {"Arn": arn})

    def update(self, request: Request) -> Created:
        self._put(request, request.physical_id)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        events, name = request.client("events"), request.physical_id
        targets = [target["Id"] for target in request.get("Targets", [])]
        if targets:
            gone_is_fine(lambda: events.remove_targets(Rule=name, Ids=targets))
        gone_is_fine(lambda: events.delete_rule(Name=name))

    def _put(self, request: Request, name: str) -> str:
        events = request.client("events")
        pattern = (
            {"EventPattern": json.dumps(request["EventPattern"])}
            if request.get("EventPattern")
            else {}
        )
        wanted = request.only(
            "Description", "State", "EventBusName", "RoleArn", "ScheduleExpression"
        )
        arn = events.put_rule(Name=name, **pattern, **wanted)["RuleArn"]
        request.retag(
            lambda: events.tag_resource(ResourceARN=arn, Tags=request.tags()),
            lambda keys: events.untag_resource(ResourceARN=arn, TagKeys=keys),
        )
        targets = request.get("Targets", [])
        kept = {target["Id"] for target in targets}
        removed = [
            target["Id"] for target in request.old.get("Targets", []) if target["Id"] not in kept
        ]
        if removed:
            events.remove_targets(Rule=name, Ids=removed)
        if targets:
            made = events.put_targets(Rule=name, Targets=targets)
            if made["FailedEntryCount"]:
                raise ResourceError(made["FailedEntries"][0]["ErrorMessage"])
        return str(arn)


TYPES: tuple[ResourceType, ...] = (EventRule(),)
