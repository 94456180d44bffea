"""AWS::Events: rules and their targets."""

from __future__ import annotations

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
        self._remove_targets(request, [target["Id"] for target in request.get("Targets", [])])
        request.call("events", "DeleteRule", Name=request.physical_id)

    def _put(self, request: Request, name: str) -> str:
        settings = request.only(*self.properties - {"Name", "Targets", "Tags"})
        arn = str(request.call("events", "PutRule", Name=name, **settings)["RuleArn"])
        request.retag("events", arn)
        targets, old_targets = request.get("Targets", []), request.old.get("Targets", [])
        ids = {target["Id"] for target in targets}
        dropped = [target["Id"] for target in old_targets if target["Id"] not in ids]
        self._remove_targets(request, dropped)
        if targets:
            response = request.call("events", "PutTargets", Rule=name, Targets=targets)
            if response["FailedEntryCount"]:
                raise ResourceError(response["FailedEntries"][0]["ErrorMessage"])
        return arn

    def _remove_targets(self, request: Request, ids: list[str]) -> None:
        rule = request.physical_id
        if ids:
            ignore_missing(lambda: request.call("events", "RemoveTargets", Rule=rule, Ids=ids))


TYPES: tuple[ResourceType, ...] = (EventRule(),)
