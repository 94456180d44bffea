"""The CloudFormation API: requests are turned into deployments of `stacks`, and what they did is
described.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlparse

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.control.clients import Clients
from shoal_local.control.cloudformation.change_set import ChangeSet, planned
from shoal_local.control.cloudformation.parameters import resolved_parameters
from shoal_local.control.cloudformation.resources import TYPES
from shoal_local.control.cloudformation.resources.base import ResourceType
from shoal_local.control.cloudformation.resources.custom import CustomResource, is_custom
from shoal_local.control.cloudformation.stack import Resource, Stack, Values
from shoal_local.control.cloudformation.stacks import Stacks
from shoal_local.control.cloudformation.template import Template, invalid, parse
from shoal_local.control.functions.service import Functions
from shoal_local.control.identity import Identity
from shoal_local.control.protocol import Answer, ApiCall
from shoal_local.errors import AwsError

Parameters = Mapping[str, Any]
LONG_POLL_S = 3.0
LARGEST_TEMPLATE = 1_000_000


@dataclass
class CloudFormation:
    """Answers for the service; `close` stops deployments."""

    identity: Identity
    clients: Clients
    functions: Functions
    endpoint_url: Callable[[], str]
    _change_sets: list[ChangeSet] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._custom = CustomResource(self.functions, self.endpoint_url)
        self.stacks = Stacks(self.identity, self.clients, self._kind)
        self.close = self.stacks.close
        self.answer_path: Callable[[dict[str, Any]], Answer | None] = self._custom.answer_path

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        """Every operation that is emulated; others are refused by name."""
        mine: dict[str, Callable[[Parameters], Mapping[str, Any]]] = {
            "CreateStack": self._create_stack,
            "UpdateStack": self._update_stack,
            "DeleteStack": self._delete_stack,
            "DescribeStacks": self._describe_stacks,
            "ListStacks": self._list_stacks,
            "DescribeStackEvents": self._describe_events,
            "DescribeStackResources": self._describe_resources,
            "DescribeStackResource": self._describe_resource,
            "ListStackResources": self._list_resources,
            "GetTemplate": self._get_template,
            "GetTemplateSummary": self._get_template_summary,
            "ValidateTemplate": self._validate_template,
            "UpdateTerminationProtection": self._protect,
            "ListExports": lambda _wanted: {"Exports": self.stacks.exports()},
            "ListImports": self._list_imports,
            "CreateChangeSet": self._create_change_set,
            "DescribeChangeSet": lambda wanted: self._change_set(wanted).described(),
            "DeleteChangeSet": self._delete_change_set,
            "ExecuteChangeSet": self._execute_change_set,
            "ListChangeSets": self._list_change_sets,
        }
        return {name: _on_parameters(answer) for name, answer in mine.items()}

    def _kind(self, type_name: str) -> ResourceType | None:
        return self._custom if is_custom(type_name) else TYPES.get(type_name)

    def _create_stack(self, wanted: Parameters) -> Mapping[str, Any]:
        protected = bool(wanted.get("EnableTerminationProtection"))
        return {
            "StackId": (
                self.stacks.create(
                    wanted["StackName"], self._template(wanted), values_of(wanted), protected
                ).id
            )
        }

    def _update_stack(self, wanted: Parameters) -> Mapping[str, Any]:
        stack = self.stacks.find(wanted["StackName"])
        self.stacks.update(stack, self._template(wanted, stack), values_of(wanted, stack))
        return {"StackId": stack.id}

    def _delete_stack(self, wanted: Parameters) -> Mapping[str, Any]:
        try:
            stack = self.stacks.find(wanted["StackName"])
        except AwsError:  # deleting what is not there is a success, as on AWS
            return {}
        if stack.status != "DELETE_COMPLETE":
            self.stacks.delete(stack, wanted.get("RoleARN"), wanted.get("ClientRequestToken"))
        return {}

    def _describe_stacks(self, wanted: Parameters) -> Mapping[str, Any]:
        """Waits a moment for a stack that is being deployed: a client that asks for one stack asks
        again until it is done.
        """
        name = wanted.get("StackName")
        found = [self.stacks.find(name)] if name else self.stacks.living()
        if name and found[0].worker is not None:
            found[0].worker.join(LONG_POLL_S)
        return {"Stacks": [stack.described() for stack in found]}

    def _list_stacks(self, wanted: Parameters) -> Mapping[str, Any]:
        statuses = wanted.get("StackStatusFilter")
        found = [stack for stack in self.stacks.all if not statuses or stack.status in statuses]
        return {"StackSummaries": [stack_summary(stack) for stack in found]}

    def _describe_events(self, wanted: Parameters) -> Mapping[str, Any]:
        stack = self.stacks.find(wanted["StackName"])
        shown = []
        for event in reversed(stack.events):
            described = {
                "StackId": stack.id,
                "EventId": event.id,
                "StackName": stack.name,
                "LogicalResourceId": event.logical_id,
                "PhysicalResourceId": event.physical_id,
                "ResourceType": event.type_name,
                "Timestamp": event.at,
                "ResourceStatus": event.status,
                **({"ResourceStatusReason": event.reason} if event.reason else {}),
                **({"ClientRequestToken": event.token} if event.token else {}),
            }
            shown.append(described)
        return {"StackEvents": shown}

    def _describe_resources(self, wanted: Parameters) -> Mapping[str, Any]:
        if not wanted.get("StackName"):
            found = [
                stack
                for stack in self.stacks.living()
                if wanted.get("PhysicalResourceId") in physical_ids(stack)
            ]
            stack = found[0] if found else self.stacks.find(str(wanted.get("PhysicalResourceId")))
        else:
            stack = self.stacks.find(wanted["StackName"])
        only = wanted.get("LogicalResourceId")
        resources = [
            resource for resource in stack.resources.values() if only in (None, resource.logical_id)
        ]
        return {
            "StackResources": [
                {**of_stack(stack), **described(resource), "Timestamp": resource.updated_at}
                for resource in resources
            ]
        }

    def _describe_resource(self, wanted: Parameters) -> Mapping[str, Any]:
        stack = self.stacks.find(wanted["StackName"])
        resource = stack.resources.get(wanted["LogicalResourceId"])
        if resource is None:
            raise invalid(
                f"Resource {wanted['LogicalResourceId']} does not exist for stack {stack.name}"
            )
        return {
            "StackResourceDetail": {
                **of_stack(stack),
                **described(resource),
                "LastUpdatedTimestamp": resource.updated_at,
            }
        }

    def _list_resources(self, wanted: Parameters) -> Mapping[str, Any]:
        resources = self.stacks.find(wanted["StackName"]).resources.values()
        return {
            "StackResourceSummaries": [
                {**described(resource), "LastUpdatedTimestamp": resource.updated_at}
                for resource in resources
            ]
        }

    def _get_template(self, wanted: Parameters) -> Mapping[str, Any]:
        if wanted.get("ChangeSetName"):
            template: Template | None = self._change_set(wanted).template
        else:
            template = self.stacks.find(wanted.get("StackName") or "").template
        return {
            "TemplateBody": template.body if template else "{}",
            "StagesAvailable": ["Original", "Processed"],
        }

    def _get_template_summary(self, wanted: Parameters) -> Mapping[str, Any]:
        stack = self.stacks.find(wanted["StackName"]) if wanted.get("StackName") else None
        template = stack.template if stack and stack.template else self._template(wanted)
        return {
            "Parameters": [
                parameter_shape(name, parameter)
                for name, parameter in template.section("Parameters").items()
            ],
            **description(template),
            "ResourceTypes": sorted({resource["Type"] for resource in template.resources.values()}),
            "Capabilities": [],
            "ResourceIdentifierSummaries": [],
        }

    def _validate_template(self, wanted: Parameters) -> Mapping[str, Any]:
        template = self._template(wanted)
        parameters = [
            parameter_shape(name, parameter)
            for name, parameter in template.section("Parameters").items()
        ]
        shown = [
            {key: value for key, value in item.items() if key != "ParameterType"}
            for item in parameters
        ]
        return {"Parameters": shown, **description(template)}

    def _protect(self, wanted: Parameters) -> Mapping[str, Any]:
        stack = self.stacks.find(wanted["StackName"])
        stack.protected = bool(wanted["EnableTerminationProtection"])
        return {"StackId": stack.id}

    def _list_imports(self, wanted: Parameters) -> Mapping[str, Any]:
        importers = self.stacks.importers(wanted["ExportName"])
        if not importers:
            raise invalid(f"Export '{wanted['ExportName']}' is not imported by any stack.")
        return {"Imports": importers}

    def _create_change_set(self, wanted: Parameters) -> Mapping[str, Any]:
        kind = wanted.get("ChangeSetType") or "UPDATE"
        if kind == "IMPORT":
            raise invalid("Shoal's emulator cannot import resources into stacks")
        stack = self._stack_to_change(wanted["StackName"], kind)
        template, values = self._template(wanted, stack), values_of(wanted, stack)
        tools = self.stacks.tools(values.role_arn)
        parameters = resolved_parameters(template, values.parameters, tools.parameter_store)
        changes = planned(stack, template, values, parameters, tools)
        created = stack.status == "REVIEW_IN_PROGRESS"
        made = ChangeSet(
            wanted["ChangeSetName"],
            stack,
            template,
            values,
            parameters,
            created,
            changes,
            wanted.get("Description") or "",
        )
        self._change_sets.append(made)
        return {"Id": made.id, "StackId": stack.id}

    def _stack_to_change(self, name: str, kind: str) -> Stack:
        try:
            stack = self.stacks.find(name)
        except AwsError:
            if kind != "CREATE":
                raise
            stack = self.stacks.add(name, None, Values(), "REVIEW_IN_PROGRESS")
            stack.record("REVIEW_IN_PROGRESS", "User Initiated")
            return stack
        if kind == "CREATE" and stack.status != "REVIEW_IN_PROGRESS":
            raise invalid(
                f"Stack [{name}] already exists and cannot be created again with the changeSet."
            )
        return stack

    def _change_set(self, wanted: Parameters) -> ChangeSet:
        name = wanted["ChangeSetName"]
        for found in reversed(self._change_sets):
            if found.id == name or (
                found.name == name and wanted.get("StackName") in {found.stack.name, found.stack.id}
            ):
                return found
        raise AwsError("ChangeSetNotFound", f"ChangeSet [{name}] does not exist", 404)

    def _delete_change_set(self, wanted: Parameters) -> Mapping[str, Any]:
        try:
            self._change_sets.remove(self._change_set(wanted))
        except AwsError as error:
            if error.code != "ChangeSetNotFound":
                raise
        return {}

    def _execute_change_set(self, wanted: Parameters) -> Mapping[str, Any]:
        found = self._change_set(wanted)
        if found.execution != "AVAILABLE":
            raise AwsError(
                "InvalidChangeSetStatus",
                f"ChangeSet [{found.id}] cannot be executed in its current status of"
                f" [{found.execution}]",
            )
        found.execution = "EXECUTE_COMPLETE"
        keep = bool(wanted.get("DisableRollback"))
        values = Values(
            found.values.parameters,
            found.values.tags,
            found.values.role_arn,
            found.values.capabilities,
            keep,
            wanted.get("ClientRequestToken"),
        )
        if found.create:
            self.stacks.start(found.stack, found.template, values, found.parameters)
        else:
            self.stacks.update(found.stack, found.template, values)
        return {}

    def _list_change_sets(self, wanted: Parameters) -> Mapping[str, Any]:
        stack = self.stacks.find(wanted["StackName"])
        return {
            "Summaries": [found.summary() for found in self._change_sets if found.stack is stack]
        }

    def _template(self, wanted: Parameters, stack: Stack | None = None) -> Template:
        if wanted.get("UsePreviousTemplate") and stack and stack.template:
            return stack.template
        if wanted.get("TemplateBody"):
            return parse(wanted["TemplateBody"])
        if not wanted.get("TemplateURL"):
            raise invalid("Either Template URL or Template Body must be specified.")
        return parse(self._fetch(wanted["TemplateURL"]))

    def _fetch(self, url: str) -> str:
        """A template in S3, by path-style or virtual-hosted URL.

        Its largest size: CloudFormation user guide, quotas.
        """
        try:
            parsed = urlparse(url)
            host, path = parsed.hostname or "", unquote(parsed.path).lstrip("/")
            in_path = host.startswith("s3") or host in {"localhost", "127.0.0.1"}
            bucket, key = (
                path.split("/", 1) if in_path and "/" in path else (host.split(".")[0], path)
            )
            found = self.clients("s3").get_object(Bucket=bucket, Key=key)
            if found["ContentLength"] > LARGEST_TEMPLATE:
                raise invalid(f"Template may not exceed {LARGEST_TEMPLATE} bytes in size ({url})")
            return str(found["Body"].read().decode())
        except ClientError as error:
            raise invalid(f"S3 error: {error.response['Error'].get('Message')} ({url})") from error
        except (
            ValueError,
            BotoCoreError,
        ) as error:  # what is no URL, no name of a bucket or a key, or no text
            raise invalid(f"TemplateURL must be a supported URL. ({url[:200]}: {error})") from error


def _on_parameters(
    answer: Callable[[Parameters], Mapping[str, Any]],
) -> Callable[[ApiCall], Mapping[str, Any]]:
    return lambda call: answer(call.parameters)


def values_of(wanted: Parameters, stack: Stack | None = None) -> Values:
    """What a request deploys with; `UsePreviousValue` and a role that is not named come from the
    stack as it is.
    """
    earlier = stack.values if stack else Values()
    parameters = {
        item["ParameterKey"]: (
            earlier.parameters[item["ParameterKey"]]
            if item.get("UsePreviousValue")
            else item.get("ParameterValue", "")
        )
        for item in wanted.get("Parameters") or []
        if not item.get("UsePreviousValue") or item["ParameterKey"] in earlier.parameters
    }
    tags = (
        {tag["Key"]: tag["Value"] for tag in wanted["Tags"]}
        if wanted.get("Tags") is not None
        else dict(earlier.tags)
    )
    return Values(
        parameters=parameters,
        tags=tags,
        role_arn=wanted.get("RoleARN") or earlier.role_arn,
        capabilities=tuple(wanted.get("Capabilities") or ()),
        keep_on_failure=bool(wanted.get("DisableRollback"))
        or wanted.get("OnFailure") == "DO_NOTHING",
        token=wanted.get("ClientRequestToken"),
    )


def physical_ids(stack: Stack) -> set[str]:
    return {resource.physical_id for resource in stack.resources.values()}


def of_stack(stack: Stack) -> dict[str, str]:
    return {"StackName": stack.name, "StackId": stack.id}


def described(resource: Resource) -> dict[str, Any]:
    """What all descriptions of a stack's resource share."""
    reason = {"ResourceStatusReason": resource.reason} if resource.reason else {}
    return {
        "LogicalResourceId": resource.logical_id,
        "PhysicalResourceId": resource.physical_id,
        "ResourceType": resource.type_name,
        "ResourceStatus": resource.status,
        **reason,
    }


def stack_summary(stack: Stack) -> dict[str, Any]:
    shown = stack.described()
    wanted = (
        "StackId",
        "StackName",
        "CreationTime",
        "LastUpdatedTime",
        "DeletionTime",
        "StackStatus",
        "StackStatusReason",
    )
    return {key: shown[key] for key in wanted if key in shown}


def description(template: Template) -> dict[str, str]:
    """The API has none that is empty."""
    return (
        {"Description": str(template.document["Description"])}
        if template.document.get("Description")
        else {}
    )


def parameter_shape(name: str, parameter: Mapping[str, Any]) -> dict[str, Any]:
    """ParameterDeclaration of the API."""
    shown = {
        "ParameterKey": name,
        "ParameterType": parameter["Type"],
        "NoEcho": str(parameter.get("NoEcho", "")).lower() == "true",
    }
    default = {"DefaultValue": str(parameter["Default"])} if "Default" in parameter else {}
    return {
        **shown,
        **default,
        **({"Description": parameter["Description"]} if parameter.get("Description") else {}),
    }
