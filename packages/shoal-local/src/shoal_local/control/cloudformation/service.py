"""The CloudFormation API: requests start deployments of `stacks` and describe them."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote, urlparse

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.control.cloudformation.plan import ChangeSet, plan_changes
from shoal_local.control.cloudformation.resources import TYPES
from shoal_local.control.cloudformation.resources.awaited import CustomResource, is_custom
from shoal_local.control.cloudformation.resources.base import ResourceType
from shoal_local.control.cloudformation.stack import Stack, StackOptions
from shoal_local.control.cloudformation.stacks import Stacks, check_updatable
from shoal_local.control.cloudformation.template import Template, invalid, parse
from shoal_local.control.functions.service import Functions
from shoal_local.control.http.protocol import Answer, ApiCall
from shoal_local.control.identity.identity import Clients, Identity
from shoal_local.errors import AwsError

Request = Mapping[str, Any]
LONG_POLL_S = 3.0
MAX_TEMPLATE_BYTES = 1_000_000


@dataclass
class CloudFormation:
    """Answers the requests to CloudFormation; `close` stops deployments."""

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
        """Return the handlers of the operations that are emulated; others are refused by name."""
        handlers: dict[str, Callable[[Request], Mapping[str, Any]]] = {
            "CreateStack": self._create_stack,
            "UpdateStack": self._update_stack,
            "DeleteStack": self._delete_stack,
            "DescribeStacks": self._describe_stacks,
            "ListStacks": self._list_stacks,
            "DescribeStackEvents": self._describe_events,
            "DescribeStackResources": self._describe_resources,
            "ListStackResources": self._list_resources,
            "GetTemplate": self._get_template,
            "UpdateTerminationProtection": self._update_termination_protection,
            "CreateChangeSet": self._create_change_set,
            "DescribeChangeSet": lambda request: self._change_set(request).describe(),
            "DeleteChangeSet": self._delete_change_set,
            "ExecuteChangeSet": self._execute_change_set,
        }
        return {name: _handler(handle) for name, handle in handlers.items()}

    def _kind(self, type_name: str) -> ResourceType | None:
        return self._custom if is_custom(type_name) else TYPES.get(type_name)

    def _create_stack(self, request: Request) -> Mapping[str, Any]:
        _refuse(request, "OnFailure")
        protected = bool(request.get("EnableTerminationProtection"))
        template, options = self._template(request), options_of(request)
        return {
            "StackId": self.stacks.create(request["StackName"], template, options, protected).id
        }

    def _update_stack(self, request: Request) -> Mapping[str, Any]:
        stack = self.stacks.find(request["StackName"])
        self.stacks.update(stack, self._template(request), options_of(request, stack))
        return {"StackId": stack.id}

    def _delete_stack(self, request: Request) -> Mapping[str, Any]:
        try:
            stack = self.stacks.find(request["StackName"])
        except AwsError:  # deleting a stack that does not exist is a success, as on AWS
            return {}
        if stack.status != "DELETE_COMPLETE":
            self.stacks.delete(stack, request.get("RoleARN"), request.get("ClientRequestToken"))
        return {}

    def _describe_stacks(self, request: Request) -> Mapping[str, Any]:
        """Describe stacks, after a short wait for one that is being deployed.

        A client that asks for one stack polls until it is done.
        """
        name = request.get("StackName")
        stacks = [self.stacks.find(name)] if name else self.stacks.existing()
        if name and stacks[0].worker is not None:
            stacks[0].worker.join(LONG_POLL_S)
        return {"Stacks": [stack.describe() for stack in stacks]}

    def _list_stacks(self, request: Request) -> Mapping[str, Any]:
        statuses = request.get("StackStatusFilter")
        stacks = [stack for stack in self.stacks.all if not statuses or stack.status in statuses]
        return {"StackSummaries": [stack.summary() for stack in stacks]}

    def _describe_events(self, request: Request) -> Mapping[str, Any]:
        stack = self.stacks.find(request["StackName"])
        return {"StackEvents": stack.events[::-1]}

    def _describe_resources(self, request: Request) -> Mapping[str, Any]:
        stack = self.stacks.find(request.get("StackName") or "")
        only = request.get("LogicalResourceId")
        return {
            "StackResources": [
                {**stack.names, **resource.shape("Timestamp")}
                for resource in stack.resources.values()
                if only in (None, resource.logical_id)
            ]
        }

    def _list_resources(self, request: Request) -> Mapping[str, Any]:
        resources = self.stacks.find(request["StackName"]).resources.values()
        shapes = [resource.shape("LastUpdatedTimestamp") for resource in resources]
        return {"StackResourceSummaries": shapes}

    def _get_template(self, request: Request) -> Mapping[str, Any]:
        _refuse(request, "ChangeSetName")
        stack = self.stacks.find(request.get("StackName") or "")
        stages = ["Original", "Processed"]
        return {"TemplateBody": stack.template.body, "StagesAvailable": stages}

    def _update_termination_protection(self, request: Request) -> Mapping[str, Any]:
        stack = self.stacks.find(request["StackName"])
        stack.protected = bool(request["EnableTerminationProtection"])
        return {"StackId": stack.id}

    def _create_change_set(self, request: Request) -> Mapping[str, Any]:
        kind = request.get("ChangeSetType") or "UPDATE"
        if kind == "IMPORT":
            raise invalid("Shoal's emulator cannot import resources into stacks")
        stack = self._stack_to_change(request["StackName"], kind)
        plan = self.stacks.plan(stack, self._template(request), options_of(request, stack))
        changes = plan_changes(plan, stack)
        change_set = ChangeSet(request["ChangeSetName"], stack, plan.stack, changes)
        with self.stacks.lock:
            self._change_sets.append(change_set)
        return {"Id": change_set.id, "StackId": stack.id}

    def _stack_to_change(self, name: str, kind: str) -> Stack:
        try:
            stack = self.stacks.find(name)
        except AwsError:
            if kind != "CREATE":
                raise
            stack = self.stacks.add(Stack("", name, ""), "REVIEW_IN_PROGRESS")
            stack.record("REVIEW_IN_PROGRESS", "User Initiated")
            return stack
        if stack.status != "REVIEW_IN_PROGRESS":
            check_updatable(stack)
        return stack

    def _change_set(self, request: Request) -> ChangeSet:
        name, stack = request["ChangeSetName"], request.get("StackName")
        for each in reversed(self._change_sets):
            is_named = each.name == name and stack in each.stack.names.values()
            if each.id == name or (is_named and each.stack.status != "DELETE_COMPLETE"):
                return each
        raise AwsError("ChangeSetNotFound", f"ChangeSet [{name}] does not exist", 404)

    def _delete_change_set(self, request: Request) -> Mapping[str, Any]:
        with self.stacks.lock, suppress(AwsError):  # one that does not exist is a success, too
            self._change_sets.remove(self._change_set(request))
        return {}

    def _execute_change_set(self, request: Request) -> Mapping[str, Any]:
        with self.stacks.lock:
            change_set = self._change_set(request)
            stack, draft = change_set.stack, change_set.draft
            draft.options = replace(
                draft.options,
                keep_on_failure=bool(request.get("DisableRollback")),
                token=request.get("ClientRequestToken"),
            )
            if stack.status == "REVIEW_IN_PROGRESS":
                self.stacks.start(stack, draft)
            else:
                self.stacks.update(stack, draft.template, draft.options)
            # The others "aren't valid for the updated stack" (API reference, ExecuteChangeSet).
            self._change_sets = [each for each in self._change_sets if each.stack is not stack]
        return {}

    def _template(self, request: Request) -> Template:
        if request.get("TemplateBody"):
            return parse(request["TemplateBody"])
        _refuse(request, "UsePreviousTemplate")
        if not request.get("TemplateURL"):
            raise invalid("Either Template URL or Template Body must be specified.")
        return parse(self._fetch(request["TemplateURL"]))

    def _fetch(self, url: str) -> str:
        """Return a template in S3, by path-style or virtual-hosted URL.

        Source of the maximum size: CloudFormation user guide, quotas.
        """
        try:
            parsed = urlparse(url)
            host, path = parsed.hostname or "", unquote(parsed.path).lstrip("/")
            in_path = host.startswith("s3") or host in {"localhost", "127.0.0.1"}
            by_path = in_path and "/" in path
            bucket, key = path.split("/", 1) if by_path else (host.split(".")[0], path)
            stored = self.clients("s3").get_object(Bucket=bucket, Key=key)
            if stored["ContentLength"] > MAX_TEMPLATE_BYTES:
                raise invalid(f"Template may not exceed {MAX_TEMPLATE_BYTES} bytes in size ({url})")
            return str(stored["Body"].read().decode())
        except ClientError as error:
            raise invalid(f"S3 error: {error.response['Error'].get('Message')} ({url})") from error
        # Not a URL, not the name of a bucket or key, or not text.
        except (ValueError, BotoCoreError) as error:
            raise invalid(f"TemplateURL must be a supported URL. ({url[:200]}: {error})") from error


def _handler(
    handle: Callable[[Request], Mapping[str, Any]],
) -> Callable[[ApiCall], Mapping[str, Any]]:
    return lambda call: handle(call.parameters)


def _refuse(request: Request, member: str) -> None:
    if request.get(member):
        raise invalid(f"Shoal's emulator does not take {member}")


def options_of(request: Request, stack: Stack | None = None) -> StackOptions:
    """Return the options of a deployment.

    The stack has the values for `UsePreviousValue`, and the role and tags that a request omits.
    """
    old_options = stack.options if stack else StackOptions()
    parameters = {}
    for item in request.get("Parameters") or []:
        key = item["ParameterKey"]
        if not item.get("UsePreviousValue"):
            parameters[key] = item.get("ParameterValue", "")
        elif key in old_options.parameters:
            parameters[key] = old_options.parameters[key]
    tags = old_options.tags
    if request.get("Tags") is not None:
        tags = {tag["Key"]: tag["Value"] for tag in request["Tags"]}
    return StackOptions(
        parameters=parameters,
        tags=tags,
        role_arn=request.get("RoleARN") or old_options.role_arn,
        keep_on_failure=bool(request.get("DisableRollback")),
        token=request.get("ClientRequestToken"),
    )
