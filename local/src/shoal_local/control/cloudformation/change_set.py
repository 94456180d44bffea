"""Change sets: what a template would add, change, replace and remove, worked out without touching
anything.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from shoal_local.control.cloudformation.engine import Deployment, Tools
from shoal_local.control.cloudformation.stack import Resource, Stack, Values
from shoal_local.control.cloudformation.template import Template

UNKNOWN = "{{changeSet:KNOWN_AFTER_APPLY}}"
NOTHING = (
    "The submitted information didn't contain changes. Submit different information to create a"
    " change set."
)


@dataclass
class ChangeSet:
    """A change set with its outcome; `create` says that executing it creates the stack."""

    name: str
    stack: Stack
    template: Template
    values: Values
    parameters: dict[str, Any]
    create: bool
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
        """ChangeSetSummary of the API."""
        shown = {
            "StackId": self.stack.id,
            "StackName": self.stack.name,
            "ChangeSetId": self.id,
            "ChangeSetName": self.name,
            "ExecutionStatus": self.execution,
            "Status": "CREATE_COMPLETE" if self.changes else "FAILED",
            "StatusReason": None if self.changes else NOTHING,
            "CreationTime": self.created_at,
            "Description": self.description or None,
        }
        return {key: value for key, value in shown.items() if value is not None}

    def described(self) -> dict[str, Any]:
        """The answer of DescribeChangeSet."""
        return {
            **self.summary(),
            "Parameters": [
                {"ParameterKey": key, "ParameterValue": value}
                for key, value in self.values.parameters.items()
            ],
            "Capabilities": list(self.values.capabilities),
            "Tags": [{"Key": key, "Value": value} for key, value in self.values.tags.items()],
            "NotificationARNs": [],
            "Changes": self.changes,
        }


def planned(
    stack: Stack, template: Template, values: Values, parameters: Mapping[str, Any], tools: Tools
) -> list[dict[str, Any]]:
    """The changes that `template` would make to `stack`, as the API writes them; AwsError where it
    cannot be resolved.
    """
    sketch = copy(stack)
    sketch.resources, sketch.events, sketch.values = dict(stack.resources), [], values
    deployment = Deployment(sketch, template, parameters, tools)
    resolver = deployment.resolver()
    resolver.attribute = _guessing(sketch)
    wanted = deployment.wanted(resolver)
    changes = []
    for logical_id in wanted:
        resource = deployment.planned(logical_id, resolver)
        before = stack.resources.get(logical_id)
        changes += _change(deployment, before, resource)
        if before is None or (
            changes and changes[-1]["ResourceChange"].get("Replacement") == "True"
        ):
            sketch.resources[logical_id] = replace(resource, physical_id=UNKNOWN, attributes={})
    gone = [resource for name, resource in stack.resources.items() if name not in wanted]
    changes += [_described("Remove", resource) for resource in gone]
    if not changes and (
        values.tags != stack.values.tags or _outputs(template) != _outputs(stack.template)
    ):
        changes += [
            _described("Modify", resource, ["Tags"])
            for resource in list(stack.resources.values())[:1]
        ]
    return changes


def _change(
    deployment: Deployment, before: Resource | None, resource: Resource
) -> list[dict[str, Any]]:
    if before is None:
        return [_described("Add", resource)]
    if before.properties == resource.properties:
        return []
    kind = deployment.tools.kind(resource.type_name)
    request = deployment.request(
        replace(resource, physical_id=before.physical_id, attributes=before.attributes), before
    )
    replacement = kind is not None and kind.needs_replacement(request)
    changed = sorted(
        name for name in {*before.properties, *resource.properties} if request.changed(name)
    )
    shown = _described("Modify", replace(resource, physical_id=before.physical_id), changed)
    shown["ResourceChange"]["Replacement"] = "True" if replacement else "False"
    return [shown]


def _described(action: str, resource: Resource, changed: list[str] | None = None) -> dict[str, Any]:
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


def _guessing(sketch: Stack) -> Any:
    """Attributes of resources that do not exist yet are known only after the change."""

    def attribute(logical_id: str, name: str) -> Any:
        resource = sketch.resources.get(logical_id)
        return UNKNOWN if resource is None else resource.attributes.get(name, UNKNOWN)

    return attribute


def _outputs(template: Template | None) -> Mapping[str, Any]:
    return template.section("Outputs") if template else {}
