"""An environment's stacks in CloudFormation: what they keep, what blocks their deletion, and the
deletion of those that `cdk destroy` does not see.

`cdk destroy` deletes the stacks that the checkout describes. Here are also those that it no longer
describes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from shoal.aws import inventory
from shoal.aws.cdk import TOOLKIT_STACK
from shoal.aws.deployed_stack import describe_stack
from shoal.aws.events import Note, Report
from shoal.aws.target import Target
from shoal.errors import LeftBehindError, error_code
from shoal.settings.names import RUNS, SEALED, SHARED_PARTS, Names

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
_RETAINED = {"Retain", "RetainExceptOnCreate", "Snapshot"}
_DELETE_TIMEOUT_S = 3600.0
_SETTLE_TIMEOUT_S = 2 * 14_400.0
"""Time for the rollout of a release and its rollback.

Source: API reference, BlueGreenUpdatePolicy: MaximumExecutionTimeoutInSeconds is at most 14,400.
"""
_INTERFACES_TIMEOUT_S = 1200.0
"""Network interfaces go some minutes after their jobs and endpoints (SageMaker developer guide)."""


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
        return sorted(
            (stack.name for stack in inventory.of_environment(self.target, owner, ["stack"])),
            key=lambda name: ranks.get(name, -1),
        )

    def busy(self) -> dict[str, str]:
        """Return the status, by name, of the stacks that CloudFormation is working on."""
        stacks = {name: self.describe(name) for name in self.left()}
        return {
            name: str(stack["StackStatus"])
            for name, stack in stacks.items()
            if stack and _is_busy(stack)
        }

    def settle(self) -> None:
        """Wait until CloudFormation works on none of them.

        It neither updates nor deletes a stack in the middle of an operation. What one of several
        workloads shares with the others counts too. Raises LeftBehindError at a deadline.
        """
        shared = SHARED_PARTS if self.names.is_one_of_several else ()
        for name in (*map(self.names.stack, shared), *self.busy()):
            self.wait_until_settled(name)

    def wait_until_settled(self, name: str) -> dict[str, Any] | None:
        """Return the stack once CloudFormation has ended its operation, or None if it is deleted.

        Raises LeftBehindError at a deadline.
        """
        deadline, announced = time.monotonic() + _SETTLE_TIMEOUT_S, False
        while (stack := self.describe(name)) and _is_busy(stack):
            if time.monotonic() > deadline:
                raise LeftBehindError(
                    f"stack {name} is still {stack['StackStatus']} after {_SETTLE_TIMEOUT_S:.0f} s;"
                    " run it again"
                )
            if not announced:
                self.report(Note(f"waiting for stack {name}, which is {stack['StackStatus']}"))
                announced = True
            time.sleep(self.poll_s)
        return stack

    def kept_on_purpose(self) -> list[str]:
        """Return what the templates keep, and what only looks like a part of the environment.

        Of one of several workloads, what it has in the buckets that they share. Call it before they
        are deleted.
        """
        kept = [line for stack in self.left() for line in self.kept_of(stack)]
        if self.names.is_one_of_several:
            return [*kept, *self._kept_objects()]
        vpc = self.names.environment.network.existing
        if vpc is not None:
            kept.append(f"vpc {vpc.vpc_id}, with its subnets: it was there before")
        kept.append(
            f"stack {TOOLKIT_STACK}, with its bucket: every CDK app of the account and region uses"
            " them"
        )
        return kept

    def _kept_objects(self) -> Iterator[str]:
        """Yield a line for each place in the shared buckets in which the workload has objects."""
        names, s3 = self.names, self.target.client("s3")
        places = {names.dataset_uri: "its dataset"} | {
            f"s3://{names.bucket('artifacts')}/{names.folder(purpose)}": what
            for purpose, what in _KEPT_FOLDERS.items()
        }
        for uri, what in places.items():
            bucket, _, prefix = uri.removeprefix("s3://").partition("/")
            with suppress(s3.exceptions.NoSuchBucket):
                if s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/", MaxKeys=1)["KeyCount"]:
                    yield f"{uri}/: {what}"

    def wait_for_interfaces(self, timeout_s: float = _INTERFACES_TIMEOUT_S) -> None:
        """Wait until the network interfaces of jobs and endpoints are gone.

        Until then their subnets and security groups cannot be deleted.
        """
        deadline = time.monotonic() + timeout_s
        announced = False
        while interfaces := self._interfaces():
            if time.monotonic() > deadline:
                self.report(
                    Note(
                        f"still there after {timeout_s:.0f} s: network interfaces"
                        f" {', '.join(interfaces)}; the network's deletion may fail"
                    )
                )
                return
            if not announced:
                self.report(Note(f"waiting for network interfaces to go: {', '.join(interfaces)}"))
                announced = True
            time.sleep(self.poll_s)

    def delete_rest(self) -> None:
        """Delete the stacks that `cdk destroy` left: unknown to the checkout, or failed before."""
        for name in self.left():
            self.report(Note(f"deleting stack {name}"))
            reason = self.delete(name)
            if reason:
                self.report(Note(f"stack {name} could not be deleted: {reason}"))

    def protected(self) -> list[str]:
        """Return the names of the existing stacks that have termination protection."""
        return [
            name
            for name in self.left()
            if (stack := self.describe(name)) and stack.get("EnableTerminationProtection")
        ]

    def retained(self) -> frozenset[str]:
        """Return the names of the resources that the templates retain.

        Call it before the stacks are deleted.
        """
        return frozenset(
            str(resource["PhysicalResourceId"]).rpartition("/")[2]  # of an ARN, or all of a name
            for stack in self.left()
            for resource, policy in self._resources_of(stack)
            if policy
        )

    def kept_of(self, stack: str) -> Iterator[str]:
        """Yield a line for each resource that one stack's template keeps.

        Call it before the stack is deleted.
        """
        for resource, policy in self._resources_of(stack):
            if policy:
                yield (
                    f"{resource['ResourceType']} {resource['PhysicalResourceId']} of stack {stack}"
                    f" (DeletionPolicy {policy})"
                )
            elif (
                resource["ResourceType"] == "AWS::KMS::Key"
                and resource["ResourceStatus"] != "DELETE_COMPLETE"
            ):
                yield (
                    f"key {resource['PhysicalResourceId']}: KMS deletes it after its waiting"
                    " period, and until then it can be had back"
                )

    def _resources_of(self, stack: str) -> Iterator[tuple[dict[str, Any], str | None]]:
        """Yield each resource of a stack, and the policy by which its template retains it."""
        cloudformation = self.target.client("cloudformation")
        try:
            declared = _resources(cloudformation.get_template(StackName=stack)["TemplateBody"])
        except ClientError as error:
            if (
                error_code(error) == "ValidationError"
            ):  # gone meanwhile, or a change set that was never executed
                return
            raise
        for resource in _all_of(cloudformation, stack):
            policy = declared.get(resource["LogicalResourceId"], {}).get("DeletionPolicy")
            exists = "PhysicalResourceId" in resource
            yield resource, policy if policy in _RETAINED and exists else None

    def _interfaces(self) -> list[str]:
        """Return the interfaces of jobs and endpoints.

        Those of VPC endpoints, NAT gateways and file systems go with their stacks.
        """
        ids = self._network_ids()
        ec2 = self.target.client("ec2")
        interfaces = {}
        for kind, name in (
            ("AWS::EC2::Subnet", "subnet-id"),
            ("AWS::EC2::SecurityGroup", "group-id"),
        ):
            if ids.get(kind):
                for interface in ec2.describe_network_interfaces(
                    Filters=[{"Name": name, "Values": ids[kind]}]
                )["NetworkInterfaces"]:
                    interfaces[interface["NetworkInterfaceId"]] = interface
        return sorted(key for key, interface in interfaces.items() if _is_of_a_job(interface))

    def _network_ids(self) -> dict[str, list[str]]:
        try:
            resources = _all_of(self.target.client("cloudformation"), self.names.stack("network"))
        except ClientError as error:
            if (
                error_code(error) == "ValidationError"
            ):  # CloudFormation's word for a stack that does not exist
                return {}
            raise
        ids: dict[str, list[str]] = {}
        for resource in resources:
            if resource["ResourceStatus"] != "DELETE_COMPLETE" and "PhysicalResourceId" in resource:
                ids.setdefault(resource["ResourceType"], []).append(resource["PhysicalResourceId"])
        return ids

    def delete(self, name: str) -> str | None:
        """Delete a stack; return why it still exists, or None."""
        cloudformation = self.target.client("cloudformation")
        try:
            cloudformation.delete_stack(StackName=name)
        except ClientError as error:  # termination protection; exports that others use
            return str(error.response["Error"].get("Message"))
        deadline = time.monotonic() + _DELETE_TIMEOUT_S
        while stack := self.describe(name):
            if not stack["StackStatus"].endswith("IN_PROGRESS"):
                return str(stack.get("StackStatusReason") or stack["StackStatus"])
            if time.monotonic() > deadline:
                return f"it is {stack['StackStatus']} after {_DELETE_TIMEOUT_S:.0f} s"
            time.sleep(self.poll_s)
        return None

    def describe(self, name: str) -> dict[str, Any] | None:
        """Return the stack as CloudFormation describes it, or None."""
        return describe_stack(self.target, name)


def _all_of(cloudformation: Any, stack: str) -> Sequence[dict[str, Any]]:
    pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack)
    return [resource for page in pages for resource in page["StackResourceSummaries"]]


def _resources(body: Any) -> dict[str, Any]:
    """Return the resources of a template, which botocore returns parsed or as text."""
    template = json.loads(body) if isinstance(body, str) else body
    return dict(template.get("Resources", {}))


def _is_busy(stack: dict[str, Any]) -> bool:
    """Return whether CloudFormation works on the stack. A change set that nobody executed does not
    count.
    """
    status = str(stack["StackStatus"])
    return status.endswith("IN_PROGRESS") and status != "REVIEW_IN_PROGRESS"


def _is_of_a_job(interface: dict[str, Any]) -> bool:
    description = str(interface.get("Description", ""))
    return (
        interface.get("InterfaceType", "interface") == "interface"
        and " fs-" not in f" {description}"
    )
