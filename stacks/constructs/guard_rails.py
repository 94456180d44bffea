"""A place in the VPC and what the definition asks for go in; IAM conditions that refuse every other
request come out.

Every key of a set is paired with `Null: false`: `ForAllValues` alone also holds for a request that
does not have the key at all. Source: service authorization reference, "Actions, resources, and
condition keys for Amazon SageMaker". Keys of September 2026: the older `sagemaker:OutputKmsKey` is
deprecated, belongs to no action any more, and a condition on it would refuse every job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_ec2 as ec2

from config.names import PIPELINE_TAG, Names
from pipelines.limits import Limits

Conditions = dict[str, dict[str, Any]]
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
    """Only in these subnets with these security groups."""
    return only(
        {
            "sagemaker:VpcSubnets": [*place.subnet_ids],
            "sagemaker:VpcSecurityGroupIds": [*place.security_group_ids],
        }
    )


def within(limits: Limits, key_arn: str) -> Conditions:
    """Only on the instance types that the definition names, no longer than it says, and with
    outputs under this key.
    """
    conditions = only({"sagemaker:InstanceTypes": [*limits.instance_types]})
    if limits.max_runtime_s is not None:
        conditions["NumericLessThanEquals"] = {
            "sagemaker:MaxRuntimeInSeconds": str(limits.max_runtime_s)
        }
        conditions["Null"] |= {"sagemaker:MaxRuntimeInSeconds": "false"}
    if limits.encrypts_output:
        conditions["ArnEquals"] = {"sagemaker:OutputKmsKeyArn": key_arn}
        conditions["Null"] |= {"sagemaker:OutputKmsKeyArn": "false"}
    return conditions


def from_file_system(mounted: bool) -> Conditions:
    """Channels from Lustre read-only; where the environment has no file system none from anybody's
    in the same VPC.

    StringEquals without IfExists is false for a request that does not have the key, Null says the
    same for whoever reads the policy.
    """
    if not mounted:
        return {"Null": {"sagemaker:FileSystemId": "true"}}
    keys = {"sagemaker:FileSystemAccessMode": "ro", "sagemaker:FileSystemType": "FSxLustre"}
    return {"StringEquals": keys, "Null": dict.fromkeys(keys, "false")}


def only(allowed: Mapping[str, Sequence[str]]) -> Conditions:
    """Every value of each key is one of those allowed, and there is at least one."""
    return {"ForAllValues:StringEquals": dict(allowed), "Null": dict.fromkeys(allowed, "false")}


def ours(names: Names) -> Conditions:
    """Only what is tagged as this pipeline's.

    Names alone do not tell: `dev-2` begins like `dev`, and SageMaker makes up some.

    A definition of one's own need not tag what it makes: there only what is another pipeline's is
    refused.
    """
    if names.environment.pipeline is not None:
        return ours_or_missing(names)
    return {"StringEquals": {_TAG: names.pipeline}}


def ours_or_missing(names: Names) -> Conditions:
    """Nothing that is tagged as another pipeline's, under a name that this pipeline gives, or only
    to look at.

    IfExists: what does not exist has no tags, and whoever asks for it must be told so, not that
    access is denied.
    """
    return {"StringEqualsIfExists": {_TAG: names.pipeline}}


def tagging_new(names: Names, *operations: str) -> Conditions:
    """Only while something is made, so that what is there already cannot be made to look like ours;
    and never as another pipeline's.
    """
    creating = {"StringEquals": {"sagemaker:TaggingAction": [*operations]}}
    return creating | {"StringEqualsIfExists": {f"aws:RequestTag/{PIPELINE_TAG}": names.pipeline}}


def both(one: Conditions, other: Conditions) -> Conditions:
    """The conditions of both; the keys differ."""
    return {
        operator: one.get(operator, {}) | other.get(operator, {})
        for operator in sorted({*one, *other})
    }
