"""Change sets: the resources that a template would add, change, replace and remove."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from shoal_local.control.cloudformation.plan import Plan
from shoal_local.control.cloudformation.stack import Resource, Stack

UNKNOWN = "{{changeSet:KNOWN_AFTER_APPLY}}"
NO_CHANGES = (
    "The submitted information didn't contain changes. Submit different information to create a"
    " change set."
)


@dataclass
class ChangeSet:
    """A change set with its changes; `draft` is the stack as executing it begins."""

    name: str
    stack: Stack
    draft: Stack
    changes: list[dict[str, Any]]
    description: str = ""
    id: str = ""
    execution: str = "AVAILABLE"
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        prefix = self.stack.id.partition(":stack/")[0]
        self.id = self.id or f"{prefix}:changeSet/{self.name}/{uuid.uuid4()}"
        if not self.changes:
            self.execution = "UNAVAILABLE"

    def summary(self) -> dict[str, Any]:
        """Return ChangeSetSummary of the API."""
        summary = {
            "StackId": self.stack.id,
            "StackName": self.stack.name,
            "ChangeSetId": self.id,
            "ChangeSetName": self.name,
            "ExecutionStatus": self.execution,
            "Status": "CREATE_COMPLETE" if self.changes else "FAILED",
            "StatusReason": None if self.changes else NO_CHANGES,
            "CreationTime": self.created_at,
            "Description": self.description or None,
        }
        return {key: value for key, value in summary.items() if value is not None}

    def describe(self) -> dict[str, Any]:
        """Return the answer of DescribeChangeSet."""
        options = self.draft.options
        return {
            **self.summary(),
            "Parameters": [
                {"ParameterKey": key, "ParameterValue": value}
                for key, value in options.parameters.items()
            ],
            "Capabilities": list(options.capabilities),
            "Tags": [{"Key": key, "Value": value} for key, value in options.tags.items()],
            "NotificationARNs": [],
            "Changes": self.changes,
        }


def plan_changes(plan: Plan, stack: Stack) -> list[dict[str, Any]]:
    """Return a plan's changes of a stack as the API has them, and sketch them in the plan's draft;
    raise AwsError if it cannot be resolved.
    """
    draft = plan.stack

    def attribute(logical_id: str, name: str) -> Any:
        # of a resource to create it is known only later
        resource = draft.resources.get(logical_id)
        return UNKNOWN if resource is None else resource.attributes.get(name, UNKNOWN)

    plan.resolve.attribute = attribute
    logical_ids, changes = plan.logical_ids(), []
    for logical_id in logical_ids:
        resource = plan.planned_resource(logical_id)
        before = stack.resources.get(logical_id)
        change = _change_of(plan, before, resource)
        changes += [change] if change else []
        is_new = change is not None and change["ResourceChange"].get("Replacement") == "True"
        if before is None or is_new:
            draft.resources[logical_id] = replace(resource, physical_id=UNKNOWN, attributes={})
    removed = [resource for name, resource in stack.resources.items() if name not in logical_ids]
    changes += [_resource_change("Remove", resource) for resource in removed]
    outputs = [each.template.section("Outputs") for each in (stack, draft)]
    if not changes and (draft.options.tags != stack.options.tags or outputs[0] != outputs[1]):
        first = list(stack.resources.values())[:1]
        changes = [_resource_change("Modify", resource, ["Tags"]) for resource in first]
    return changes


def _change_of(plan: Plan, before: Resource | None, resource: Resource) -> dict[str, Any] | None:
    if before is None:
        return _resource_change("Add", resource)
    if before.properties == resource.properties:
        return None
    resource = replace(resource, physical_id=before.physical_id, attributes=before.attributes)
    kind, request = plan.tools.kind(resource.type_name), plan.request(resource, before)
    names = {*before.properties, *resource.properties}
    changed = sorted(name for name in names if request.changed(name))
    change = _resource_change("Modify", resource, changed)
    is_new = kind is not None and kind.needs_replacement(request)
    change["ResourceChange"]["Replacement"] = "True" if is_new else "False"
    return change


def _resource_change(
    action: str, resource: Resource, changed: list[str] | None = None
) -> dict[str, Any]:
    change: dict[str, Any] = {
        "Action": action,
        "LogicalResourceId": resource.logical_id,
        "ResourceType": resource.type_name,
        "Scope": ["Properties"] if changed else [],
        "Details": [
            {
                "Target": {"Attribute": "Properties", "Name": name},
                "Evaluation": "Static",
                "ChangeSource": "DirectModification",
            }
            for name in changed or []
        ],
    }
    if resource.physical_id:
        change["PhysicalResourceId"] = resource.physical_id
    return {"Type": "Resource", "ResourceChange": change}
