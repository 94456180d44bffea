"""An environment's stacks in CloudFormation: what they keep, what blocks their deletion, and the
deletion of those that `cdk destroy` does not see.

`cdk destroy` deletes the stacks that the checkout describes. Here are also those that it no longer
describes.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from botocore.exceptions import ClientError, WaiterError

from shoal.aws import inventory
from shoal.aws.events import Note, Report
from shoal.aws.objects import has_files
from shoal.aws.target import Target, items
from shoal.errors import LeftBehindError, error_code
from shoal.settings.names import RUNS, SEALED, SHARED_PARTS, Names
from shoal.settings.organisation import toolkit_stack

ORDER = ("serving", "monitoring", "pipeline", "file-system", "image", "network", "data")
"""Users before what they use. A part that is not named here uses others and is used by none."""
_KEPT_FOLDERS = {
    SEALED: "its sealed models",
    "training": "what its training wrote",
    "evaluation": "what its evaluations wrote",
    "checkpoints": "its checkpoints",
    RUNS: "the pages of its runs",
    "captured": "requests and answers that were captured",
    "transform": "the results of its transform jobs",
}
"""Purposes of folders of the artifact bucket, which outlive a workload."""
_INTERFACE_FILTERS = {"AWS::EC2::Subnet": "subnet-id", "AWS::EC2::SecurityGroup": "group-id"}
_RETAINED = {"Retain", "RetainExceptOnCreate", "Snapshot"}
_DELETE_TIMEOUT_S = 3600.0
_SETTLE_TIMEOUT_S = 2 * 28_800.0
"""Time for the rollout of a release and its rollback.

Source: botocore, BlueGreenUpdatePolicy: MaximumExecutionTimeoutInSeconds is at most 28,800.
"""
_INTERFACES_TIMEOUT_S = 1200.0
"""Network interfaces go some minutes after their jobs and endpoints (SageMaker developer guide)."""

_NO_STACK = "ValidationError"
"""CloudFormation's error code for a stack that does not exist."""


def describe_stack(target: Target, name: str) -> dict[str, Any] | None:
    """Return the stack as CloudFormation describes it, or None if it does not exist any more."""
    try:
        (stack,) = target.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if error_code(error) == _NO_STACK:
            return None
        raise
    return None if stack["StackStatus"] == "DELETE_COMPLETE" else dict(stack)


def status_of_stack(target: Target, name: str) -> str | None:
    """Return the stack's StackStatus, or None if it does not exist or has only a change set."""
    status = (describe_stack(target, name) or {}).get("StackStatus")
    return None if status == "REVIEW_IN_PROGRESS" else status


@dataclass(frozen=True)
class Stacks:
    """The stacks of one environment, or of one of its workloads."""

    target: Target
    names: Names
    report: Report
    poll_s: float

    def left(self) -> list[str]:
        """Return the names of the existing stacks, in the order in which they can be deleted."""
        owner = inventory.owner_in(self.target, self.names)
        ranks = {
            f"{prefix}-{part}": rank for rank, part in enumerate(ORDER) for prefix in owner.prefixes
        }
        stacks = inventory.of_environment(self.target, owner, ["stack"])
        return sorted((stack.name for stack in stacks), key=lambda name: ranks.get(name, -1))

    def busy(self) -> dict[str, str]:
        """Return the status, by name, of the stacks that CloudFormation is working on."""
        return {name: status for name in self.left() if (status := self._busy_status(name))}

    def _busy_status(self, name: str) -> str | None:
        """Return the status of a stack that CloudFormation works on; a change set is none."""
        status = status_of_stack(self.target, name)
        return status if status and status.endswith("IN_PROGRESS") else None

    def settle(self) -> None:
        """Wait until CloudFormation works on none of them.

        It neither updates nor deletes a stack in the middle of an operation. What one of several
        workloads shares with the others counts too. Raises LeftBehindError at a deadline.
        """
        shared = SHARED_PARTS if self.names.is_one_of_several else ()
        for name in (*map(self.names.stack, shared), *self.busy()):
            self.wait_until_settled(name)

    def wait_until_settled(self, name: str) -> dict[str, Any] | None:
        """Return the stack after its operation, None if deleted; raise LeftBehindError."""
        waiting = f"waiting for stack {name}, which is {{}}"
        if status := self._watch(partial(self._busy_status, name), waiting, _SETTLE_TIMEOUT_S):
            raise LeftBehindError(
                f"stack {name} is still {status} after {_SETTLE_TIMEOUT_S:.0f} s; run it again"
            )
        return describe_stack(self.target, name)

    def _watch(self, look: Callable[[], str | None], waiting: str, timeout_s: float) -> str | None:
        """Look until there is nothing to wait for, or the deadline; report `waiting` once."""
        deadline, is_announced = time.monotonic() + timeout_s, False
        while (state := look()) and time.monotonic() < deadline:
            if not is_announced:
                self.report(Note(waiting.format(state)))
                is_announced = True
            time.sleep(self.poll_s)
        return state

    def kept_on_purpose(self) -> list[str]:
        """Return what the templates keep, and what only looks like a part of the environment.

        Of one of several workloads, what it has in the buckets that they share. Call it before they
        are deleted.
        """
        kept = [line for stack in self.left() for line in self.kept_of(stack)]
        if self.names.is_one_of_several:
            return [*kept, *self._kept_objects()]
        if vpc := self.names.environment.network.existing:
            kept.append(f"vpc {vpc.vpc_id}, with its subnets: it was there before")
        organisation = self.names.environment.organisation
        theirs = {"key": organisation.kms_key_arn, "bucket": organisation.data_bucket}
        kept += [f"{kind} {name}: it was there before" for kind, name in theirs.items() if name]
        users = "every CDK app of the account and region uses them"
        return [*kept, f"stack {toolkit_stack(self.names.qualifier)}, with its bucket: {users}"]

    def _kept_objects(self) -> Iterator[str]:
        """Yield a line for each place in the shared buckets in which the workload has objects."""
        names = self.names
        places = {names.dataset_uri: "its dataset"} | {
            f"s3://{names.bucket('artifacts')}/{names.folder(purpose)}": what
            for purpose, what in _KEPT_FOLDERS.items()
        }
        for uri, what in places.items():
            if has_files(self.target, f"{uri}/"):
                yield f"{uri}/: {what}"

    def wait_for_interfaces(self, timeout_s: float = _INTERFACES_TIMEOUT_S) -> None:
        """Wait until jobs' network interfaces are gone, without which their subnets stay."""
        waiting = "waiting for network interfaces to go: {}"
        if left := self._watch(self._interfaces, waiting, timeout_s):
            self.report(
                Note(
                    f"still there after {timeout_s:.0f} s: network interfaces {left}; the network's"
                    " deletion may fail"
                )
            )

    def delete_rest(self) -> None:
        """Delete the stacks that `cdk destroy` left: unknown to the checkout, or failed before."""
        for name in self.left():
            self.report(Note(f"deleting stack {name}"))
            if reason := self.delete(name):
                self.report(Note(f"stack {name} could not be deleted: {reason}"))

    def protected(self) -> list[str]:
        """Return the names of the existing stacks that have termination protection."""
        stacks = [describe_stack(self.target, name) or {} for name in self.left()]
        return [each["StackName"] for each in stacks if each.get("EnableTerminationProtection")]

    def retained(self) -> frozenset[str]:
        """Return what the templates retain; call it before the stacks are deleted."""
        return frozenset(
            str(resource["PhysicalResourceId"]).rpartition("/")[2]  # of an ARN, or all of a name
            for stack in self.left()
            for resource, policy in self._resources_of(stack)
            if policy
        )

    def kept_of(self, stack: str) -> Iterator[str]:
        """Yield a line for each resource that stays; call it before the stack is deleted."""
        for resource, policy in self._resources_of(stack):
            kind, name = resource["ResourceType"], resource["PhysicalResourceId"]
            if policy:
                yield f"{kind} {name} of stack {stack} (DeletionPolicy {policy})"
            elif kind == "AWS::KMS::Key":
                period = "after its waiting period, and until then it can be had back"
                yield f"key {name}: KMS deletes it {period}"

    def _resources_of(self, stack: str) -> Iterator[tuple[dict[str, Any], str | None]]:
        """Yield a stack's existing resources, each with the policy that retains it."""
        cloudformation = self.target.client("cloudformation")
        try:
            body = cloudformation.get_template(StackName=stack)["TemplateBody"]
            resources = [*items(cloudformation, "list_stack_resources", StackName=stack)]
        except ClientError as error:
            if error_code(error) != _NO_STACK:
                raise
            return
        template = json.loads(body) if isinstance(body, str) else body
        declared = template.get("Resources", {})
        for resource in resources:
            policy = declared.get(resource["LogicalResourceId"], {}).get("DeletionPolicy")
            is_deleted = resource["ResourceStatus"] == "DELETE_COMPLETE"
            if "PhysicalResourceId" in resource and (policy in _RETAINED or not is_deleted):
                yield resource, policy if policy in _RETAINED else None

    def _interfaces(self) -> str:
        """Return the ids of jobs' and endpoints' interfaces; others go with their stacks."""
        ids: dict[str, list[str]] = {}
        for resource, _ in self._resources_of(self.names.stack("network")):
            if name := _INTERFACE_FILTERS.get(resource["ResourceType"]):
                ids.setdefault(name, []).append(resource["PhysicalResourceId"])
        describe = self.target.client("ec2").describe_network_interfaces
        answers = [describe(Filters=[{"Name": name, "Values": ids[name]}]) for name in ids]
        interfaces = [each for answer in answers for each in answer["NetworkInterfaces"]]
        of_jobs = {each["NetworkInterfaceId"] for each in interfaces if _is_of_a_job(each)}
        return ", ".join(sorted(of_jobs))

    def delete(self, name: str) -> str | None:
        """Delete a stack; return why it still exists, or None."""
        cloudformation = self.target.client("cloudformation")
        pauses = {"Delay": self.poll_s, "MaxAttempts": int(_DELETE_TIMEOUT_S / self.poll_s)}
        try:
            cloudformation.delete_stack(StackName=name)
            waiter = cloudformation.get_waiter("stack_delete_complete")
            waiter.wait(StackName=name, WaiterConfig=pauses)
        except ClientError as error:  # termination protection; exports that others use
            return str(error.response["Error"].get("Message"))
        except WaiterError as error:
            stack = describe_stack(self.target, name) or {}
            return str(stack.get("StackStatusReason") or stack.get("StackStatus") or error)
        return None


def _is_of_a_job(interface: dict[str, Any]) -> bool:
    description = str(interface.get("Description", ""))
    is_plain = interface.get("InterfaceType", "interface") == "interface"
    return is_plain and " fs-" not in f" {description}"
