"""Records of stacks and their resources, which the engine changes and the API describes."""

import threading
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from shoal_local.control.cloudformation.template import NO_TEMPLATE, Template

IN_PROGRESS = "_IN_PROGRESS"
Output = Mapping[str, str]
"""An Output structure of the API."""


@dataclass
class Resource:
    """A resource of a stack, with its last properties."""

    logical_id: str
    type_name: str
    physical_id: str
    properties: Mapping[str, Any]
    attributes: Mapping[str, Any]
    depends_on: frozenset[str]
    deletion_policy: str = "Delete"
    replace_policy: str = "Delete"
    stack_tags: Mapping[str, str] = field(default_factory=dict)
    status: str = "CREATE_COMPLETE"
    reason: str = ""
    updated_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def shape(self, time_member: str) -> dict[str, Any]:
        """Return what all descriptions of a resource have; `time_member` is its time's name."""
        return {
            "LogicalResourceId": self.logical_id,
            "PhysicalResourceId": self.physical_id,
            "ResourceType": self.type_name,
            "ResourceStatus": self.status,
            time_member: self.updated_at,
            **({"ResourceStatusReason": self.reason} if self.reason else {}),
        }


@dataclass(frozen=True)
class StackOptions:
    """The options of a deployment, without its template."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    role_arn: str | None = None
    keep_on_failure: bool = False
    token: str | None = None


@dataclass
class Stack:
    """One stack; it has no template while it has only a change set (REVIEW_IN_PROGRESS)."""

    id: str
    name: str
    status: str
    reason: str = ""
    template: Template = NO_TEMPLATE
    options: StackOptions = StackOptions()
    resolved_parameters: Mapping[str, Any] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    events: list[dict[str, Any]] = field(default_factory=list)
    """StackEvent structures of the API, in order of time."""
    protected: bool = False
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    updated_at: datetime | None = None
    deleted_at: datetime | None = None
    worker: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        return self.status.endswith(IN_PROGRESS) and self.status != "REVIEW_IN_PROGRESS"

    @property
    def names(self) -> dict[str, str]:
        return {"StackName": self.name, "StackId": self.id}

    def take(self, other: "Stack") -> None:
        """Take over what another has of a deployment's request."""
        self.template, self.options = other.template, other.options
        self.resolved_parameters = other.resolved_parameters

    def record(self, status: str, reason: str = "") -> None:
        """Set a new status of the stack."""
        self.status, self.reason = status, reason
        kind = "AWS::CloudFormation::Stack"
        itself = Resource(self.name, kind, self.id, {}, {}, frozenset())
        self.record_resource(itself, status, reason)

    def record_resource(self, resource: Resource, status: str, reason: str = "") -> None:
        """Set a new status of a resource."""
        resource.status, resource.reason, resource.updated_at = status, reason, datetime.now(UTC)
        token = self.options.token
        event = {
            **self.names,
            "EventId": str(uuid.uuid4()),
            **resource.shape("Timestamp"),
            **({"ClientRequestToken": token} if token else {}),
        }
        self.events.append(event)

    def describe(self) -> dict[str, Any]:
        """Return the Stack structure of the API."""
        description: dict[str, Any] = {
            "StackId": self.id,
            "StackName": self.name,
            "Description": self.template.document.get("Description"),
            "Parameters": self._parameters(),
            "CreationTime": self.created_at,
            "LastUpdatedTime": self.updated_at,
            "DeletionTime": self.deleted_at,
            "StackStatus": self.status,
            "StackStatusReason": self.reason or None,
            "Outputs": self.outputs,
            "RoleARN": self.options.role_arn,
            "Tags": [{"Key": key, "Value": value} for key, value in self.options.tags.items()],
            "EnableTerminationProtection": self.protected,
        }
        return {key: value for key, value in description.items() if value is not None}

    def summary(self) -> dict[str, Any]:
        """Return the StackSummary structure of the API."""
        keys = ("StackId", "StackName", "CreationTime", "LastUpdatedTime", "DeletionTime")
        description = self.describe()
        names = [*keys, "StackStatus", "StackStatusReason"]
        return {key: description[key] for key in names if key in description}

    def _parameters(self) -> list[dict[str, str]]:
        declared = self.template.section("Parameters")
        defaults = {key: str(each.get("Default", "")) for key, each in declared.items()}
        secrets = (key for key in declared if str(declared[key].get("NoEcho")).lower() == "true")
        texts = {**defaults, **self.options.parameters, **dict.fromkeys(secrets, "****")}
        return [{"ParameterKey": key, "ParameterValue": text} for key, text in texts.items()]


def exports_in(outputs: Iterable[Output]) -> dict[str, str]:
    """Return the value of each output that other stacks may import, by the name of its export."""
    exported = (each for each in outputs if "ExportName" in each)
    return {each["ExportName"]: each.get("OutputValue", "") for each in exported}


def exports_of(stacks: Iterable[Stack]) -> dict[str, tuple[Stack, str]]:
    """Return the stack and the value of each export, by its name."""
    return {
        name: (stack, value)
        for stack in stacks
        for name, value in exports_in(stack.outputs).items()
    }
