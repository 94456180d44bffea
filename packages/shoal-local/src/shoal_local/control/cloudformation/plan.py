"""What a template asks of its stack: the values of its parameters, its rules, its resources with
resolved properties, and its outputs; and change sets, what it would add, change, replace and
remove.
"""

import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from shoal_local.control.cloudformation.resources.base import Request, ResourceType
from shoal_local.control.cloudformation.stack import Output, Resource, Stack, exports_of
from shoal_local.control.cloudformation.template import (
    NO_VALUE,
    Resolver,
    Template,
    invalid,
)


@dataclass(frozen=True)
class Tools:
    """What deployments use.

    - `kind(type_name)` returns the resource type or None.
    - `client(service)` signs with the stack's role.
    - `stacks()` returns the stacks that exist.
    """

    account: str
    region: str
    kind: Callable[[str], ResourceType | None]
    client: Callable[[str], Any]
    stacks: Callable[[], list[Stack]]
    closing: threading.Event

    def importers(self, export: str) -> list[str]:
        """Return the names of the stacks that import an export."""
        return [stack.name for stack in self.stacks() if export in stack.imports]

    def parameter_store(self, name: str) -> str:
        ssm = self.client("ssm")
        try:
            return str(ssm.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"])
        except ClientError as error:
            raise invalid(
                f"Unable to fetch parameters [{name}] from parameter store for this account."
            ) from error


@dataclass
class Plan:
    """What the template of one stack comes to, with the values of its parameters."""

    stack: Stack
    tools: Tools
    imports: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.template = self.stack.template
        pseudo = {
            "AWS::AccountId": self.tools.account,
            "AWS::Region": self.tools.region,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackName": self.stack.name,
            "AWS::StackId": self.stack.id,
            "AWS::NotificationARNs": [],
        }
        self.resolve = Resolver(
            self.template,
            pseudo,
            self.stack.resolved_parameters,
            lambda logical_id: self._resource(logical_id).physical_id,
            self._attribute,
            self._import,
            self.tools.parameter_store,
        )

    def outputs(self) -> list[Output]:
        outputs: list[Output] = []
        for key, output in self.template.section("Outputs").items():
            if not self._is_kept(output):
                continue
            export = output.get("Export", {}).get("Name")
            members = {
                "OutputKey": key,
                "ExportName": export and str(self.resolve(export)),
                "OutputValue": str(self.resolve(output["Value"])),
                "Description": str(output.get("Description", "")),
            }
            outputs.append({name: text for name, text in members.items() if text})
        return outputs

    def _is_kept(self, definition: Mapping[str, Any]) -> bool:
        """Return whether a resource or output has no condition, or one that holds."""
        return "Condition" not in definition or self.resolve.condition(definition["Condition"])

    def logical_ids(self) -> list[str]:
        """Return the ids of resources, dependencies first, without those with a false condition."""
        resources = self.template.resources
        return [name for name in self.template.order() if self._is_kept(resources[name])]

    def check_rules(self) -> None:
        """Raise AwsError, in the rule's own words, if a rule of the template does not hold."""
        for name, rule in self.template.section("Rules").items():
            if "RuleCondition" in rule and not self.resolve.test(rule["RuleCondition"]):
                continue
            for assertion in rule["Assertions"]:
                if not self.resolve.test(assertion["Assert"]):
                    words = assertion.get("AssertDescription", assertion["Assert"])
                    raise invalid(f"Rule {name} does not hold: {words}")

    def planned_resource(self, logical_id: str) -> Resource:
        """Return the resource as the template describes it, without a physical id."""
        definition = self.template.resources[logical_id]
        properties = self.resolve(definition.get("Properties") or {})
        deletion = self.resolve(definition.get("DeletionPolicy") or "Delete")
        replacing = self.resolve(definition.get("UpdateReplacePolicy") or "Delete")
        if "Snapshot" in (deletion, replacing):
            raise invalid(
                f"Shoal's emulator makes no snapshots of resources: {logical_id} has the policy"
                " Snapshot"
            )
        depends_on = frozenset(self.template.dependencies(logical_id))
        return Resource(
            logical_id,
            definition["Type"],
            "",
            {} if properties is NO_VALUE else properties,
            {},
            depends_on,
            deletion_policy=str(deletion),
            replace_policy=str(replacing),
            stack_tags=self.stack.options.tags,
        )

    def request(self, resource: Resource, before: Resource | None) -> Request:
        return Request(
            stack_name=self.stack.name,
            stack_id=self.stack.id,
            logical_id=resource.logical_id,
            type_name=resource.type_name,
            properties=resource.properties,
            client=self.tools.client,
            account=self.tools.account,
            region=self.tools.region,
            stack_tags=resource.stack_tags,
            old_stack_tags=before.stack_tags if before else {},
            physical_id=resource.physical_id,
            old=before.properties if before else {},
            attributes=resource.attributes,
            closing=self.tools.closing,
        )

    def _resource(self, logical_id: str) -> Resource:
        resource = self.stack.resources.get(logical_id)
        definition = self.template.resources.get(logical_id)
        if resource is None or definition is None or not self._is_kept(definition):
            raise invalid(
                f"Template error: the resource {logical_id} is not created (its condition is false,"
                " or the template has none)"
            )
        return resource

    def _attribute(self, logical_id: str, name: str) -> Any:
        resource = self._resource(logical_id)
        if name not in resource.attributes:
            attributes = ", ".join(sorted(resource.attributes)) or "none"
            raise invalid(
                f"Template error: {logical_id} ({resource.type_name}) has no attribute {name} in"
                f" Shoal's emulator (it has {attributes})"
            )
        return resource.attributes[name]

    def _import(self, name: str) -> str:
        self.imports.add(name)
        exports = exports_of(self.tools.stacks())
        if name not in exports:
            raise invalid(f"No export named {name} found.")
        return exports[name][1]


SSM_VALUE = "AWS::SSM::Parameter::Value<"


def resolved_parameters(
    template: Template, values: Mapping[str, str], parameter_store: Callable[[str], str]
) -> dict[str, Any]:
    """Return the value of every parameter.

    Raise AwsError (ValidationError) for one that is missing.
    """
    declared = template.section("Parameters")
    if unknown := sorted(set(values) - set(declared)):
        raise invalid(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    defaults = {name: each["Default"] for name, each in declared.items() if "Default" in each}
    texts = {**defaults, **values}
    missing = [name for name in declared if name not in texts]
    if missing:
        raise invalid(f"Parameters: [{', '.join(missing)}] must have values")
    return {
        name: _value(parameter["Type"], str(texts[name]), parameter_store)
        for name, parameter in declared.items()
    }


def _value(kind: str, text: str, parameter_store: Callable[[str], str]) -> Any:
    if kind.startswith(SSM_VALUE):
        text, kind = parameter_store(text), kind.removeprefix(SSM_VALUE).removesuffix(">")
    if kind == "CommaDelimitedList" or kind.startswith("List<"):
        return [item.strip() for item in text.split(",")] if text else []
    return text


UNKNOWN = "{{changeSet:KNOWN_AFTER_APPLY}}"
NO_CHANGES = "The submitted information didn't contain changes."
"""The beginning of CloudFormation's reason, by which the CDK knows it."""


@dataclass
class ChangeSet:
    """A change set with its changes; `draft` is the stack as executing it begins."""

    name: str
    stack: Stack
    draft: Stack
    changes: list[dict[str, Any]]
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        prefix = self.stack.id.partition(":stack/")[0]
        self.id = f"{prefix}:changeSet/{self.name}/{uuid.uuid4()}"

    def describe(self) -> dict[str, Any]:
        """Return the answer of DescribeChangeSet."""
        return {
            **self.stack.names,
            "ChangeSetId": self.id,
            "ChangeSetName": self.name,
            "ExecutionStatus": "AVAILABLE" if self.changes else "UNAVAILABLE",
            "Status": "CREATE_COMPLETE" if self.changes else "FAILED",
            **({} if self.changes else {"StatusReason": NO_CHANGES}),
            "CreationTime": self.created_at,
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
