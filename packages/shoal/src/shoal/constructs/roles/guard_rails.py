"""IAM conditions that refuse every request but those that the definition makes.

Every key with several values is paired with `Null: false`: `ForAllValues` alone also holds for a
request without the key. Source: service authorization reference, "Actions, resources, and condition
keys for Amazon SageMaker", September 2026. The older `sagemaker:OutputKmsKey` is deprecated and
belongs to no action there, but AWS's own cdk-aws-sagemaker-role-manager still asks for it. So
either name of the output's key will do, and a request with neither is denied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_ec2 as ec2

from shoal.pipelines.limits import Limits
from shoal.settings.names import PIPELINE_TAG, Names

Conditions = dict[str, dict[str, Any]]
_OUTPUT_KEYS = ("sagemaker:OutputKmsKeyArn", "sagemaker:OutputKmsKey")
_TAG = f"aws:ResourceTag/{PIPELINE_TAG}"


@dataclass(frozen=True)
class Place:
    """Where a job's network interfaces are."""

    vpc: ec2.IVpc
    subnets: Sequence[ec2.ISubnet]
    security_groups: Sequence[ec2.ISecurityGroup]

    @property
    def subnet_ids(self) -> tuple[str, ...]:
        return tuple(subnet.subnet_id for subnet in self.subnets)

    @property
    def security_group_ids(self) -> tuple[str, ...]:
        return tuple(group.security_group_id for group in self.security_groups)


def inside(place: Place) -> Conditions:
    """Allow only these subnets with these security groups."""
    return only(
        {
            "sagemaker:VpcSubnets": [*place.subnet_ids],
            "sagemaker:VpcSecurityGroupIds": [*place.security_group_ids],
        }
    )


def within(limits: Limits, key_arn: str) -> Conditions:
    """Allow the definition's instance types, its longest runtime, and outputs under this key."""
    conditions = only({"sagemaker:InstanceTypes": [*limits.instance_types]})
    if limits.max_runtime_s is not None:
        conditions["NumericLessThanEquals"] = {
            "sagemaker:MaxRuntimeInSeconds": str(limits.max_runtime_s)
        }
        conditions["Null"] |= {"sagemaker:MaxRuntimeInSeconds": "false"}
    if limits.encrypts_output:
        conditions["ArnEqualsIfExists"] = dict.fromkeys(_OUTPUT_KEYS, key_arn)
    return conditions


def from_file_system(mounted: bool) -> Conditions:
    """Allow channels from Lustre read-only; without a file system of the environment, none from any
    in the same VPC.

    StringEquals without IfExists is false for a request without the key. Null says the same to
    readers of the policy.
    """
    if not mounted:
        return {"Null": {"sagemaker:FileSystemId": "true"}}
    keys = {"sagemaker:FileSystemAccessMode": "ro", "sagemaker:FileSystemType": "FSxLustre"}
    return {"StringEquals": keys, "Null": dict.fromkeys(keys, "false")}


def only(allowed: Mapping[str, Sequence[str]]) -> Conditions:
    """Allow only these values of each key, and at least one of them."""
    return {"ForAllValues:StringEquals": dict(allowed), "Null": dict.fromkeys(allowed, "false")}


def ours(names: Names) -> Conditions:
    """Allow only what is tagged as this pipeline's.

    Names alone are not enough: `dev-2` begins like `dev`, and SageMaker generates some names. A
    definition of your own need not tag what it creates: then only what is another pipeline's is
    refused.
    """
    if names.environment.pipeline is not None:
        return ours_or_missing(names)
    return {"StringEquals": {_TAG: names.pipeline}}


def ours_or_missing(names: Names) -> Conditions:
    """Refuse what is tagged as another pipeline's. Use it for names that only this pipeline gives,
    or for actions that only read.

    IfExists: a missing resource has no tags, and the answer must be that it is missing, not that
    access is denied.
    """
    return {"StringEqualsIfExists": {_TAG: names.pipeline}}


def tagging_new(names: Names, *operations: str) -> Conditions:
    """Allow tags only while something is created, so that nothing existing can be made to look like
    ours; and never another pipeline's tag.
    """
    creating = {"StringEquals": {"sagemaker:TaggingAction": [*operations]}}
    return creating | {"StringEqualsIfExists": {f"aws:RequestTag/{PIPELINE_TAG}": names.pipeline}}


def both(one: Conditions, other: Conditions) -> Conditions:
    """Return the conditions of both; their keys differ."""
    return {
        operator: one.get(operator, {}) | other.get(operator, {})
        for operator in sorted({*one, *other})
    }
