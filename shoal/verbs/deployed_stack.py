"""A synthesised stack with the values that CloudFormation gave it: names, ids and parameters.

Only the intrinsic functions that our templates use are resolved; anything else is reported as
unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from botocore.exceptions import ClientError

from shoal.verbs.assembly import Json, SynthesisedStack
from shoal.verbs.errors import NotFoundError, ShoalError, error_code
from shoal.verbs.target import Target

_ARNS = {
    "AWS::IAM::Role": "arn:aws:iam::{account}:role/{id}",
    "AWS::KMS::Key": "arn:aws:kms:{region}:{account}:key/{id}",
    "AWS::Lambda::Function": "arn:aws:lambda:{region}:{account}:function:{id}",
    "AWS::Logs::LogGroup": "arn:aws:logs:{region}:{account}:log-group:{id}:*",
    "AWS::S3::Bucket": "arn:aws:s3:::{id}",
    "AWS::SQS::Queue": "arn:aws:sqs:{region}:{account}:{id}",
}
"""`Fn::GetAtt X.Arn` by type; `id` is the last part of the physical id (a queue's is its URL).

Source: CloudFormation's return values.
"""
_NO_STACK = "ValidationError"
"""CloudFormation's error code for a stack that does not exist."""
_SAME_AS_REF = frozenset(
    {"GroupId", "ModelName", "EndpointConfigName", "EndpointName", "VpcId", "SubnetId"}
)


class UnknownValueError(ShoalError):
    """A part of a template cannot be compared, because its value is not known."""


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
    stack = describe_stack(target, name)
    return (
        str(stack["StackStatus"])
        if stack and stack["StackStatus"] != "REVIEW_IN_PROGRESS"
        else None
    )


@dataclass(frozen=True)
class DeployedStack:
    """One stack; asks CloudFormation when needed, once per question."""

    target: Target
    synthesised: SynthesisedStack

    @property
    def name(self) -> str:
        return self.synthesised.name

    @cached_property
    def physical_ids(self) -> dict[str, str]:
        """Return physical ids by logical ids; raise NotFoundError if there is no such stack."""
        pages = (
            self.target.client("cloudformation")
            .get_paginator("list_stack_resources")
            .paginate(StackName=self.name)
        )
        try:
            resources = [each for page in pages for each in page["StackResourceSummaries"]]
        except ClientError as error:
            if error_code(error) == _NO_STACK:
                raise NotFoundError(
                    f"there is no stack {self.name} in {self.target.description}"
                ) from error
            raise
        return {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for each in resources
            if each.get("PhysicalResourceId")
        }

    def value(self, value: Any) -> Any:
        """Resolve a value of the template; raise UnknownValueError if that is not possible."""
        if isinstance(value, list):
            return [self.value(each) for each in value if each != {"Ref": "AWS::NoValue"}]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            ((function, argument),) = value.items()
            if function == "Ref" or function.startswith("Fn::"):
                return self._intrinsic(function, argument)
        return {
            key: self.value(each) for key, each in value.items() if each != {"Ref": "AWS::NoValue"}
        }

    def of_type(self, resource_type: str) -> dict[str, Json]:
        """Return the template's properties, unresolved, by logical id."""
        return self.synthesised.of_type(resource_type)

    def physical_id(self, logical_id: str) -> str:
        """Return a physical id; raise UnknownValueError if the resource is not deployed."""
        if logical_id not in self.physical_ids:
            raise UnknownValueError(f"{logical_id} of {self.name} is in the files and not deployed")
        return self.physical_ids[logical_id]

    def _intrinsic(self, function: str, argument: Any) -> Any:
        if function == "Ref":
            return self._ref(str(argument))
        if function == "Fn::Join":
            separator, parts = argument
            return str(separator).join(str(part) for part in self.value(parts))
        if function == "Fn::GetAtt":
            return self._attribute(*argument)
        if function == "Fn::ImportValue" and isinstance(argument, str):
            return self._export(argument)
        raise UnknownValueError(f"{function} in the template of {self.name} is not known here")

    def _ref(self, logical_id: str) -> str:
        pseudo_parameters = {
            "AWS::AccountId": self.target.account,
            "AWS::Region": self.target.region,
            "AWS::Partition": "aws",
        }
        pseudo_parameters |= {"AWS::URLSuffix": "amazonaws.com", "AWS::StackName": self.name}
        return (
            pseudo_parameters.get(logical_id)
            or self._parameters.get(logical_id)
            or self.physical_id(logical_id)
        )

    def _attribute(self, logical_id: str, attribute: str) -> str:
        physical_id = self.physical_id(logical_id)
        if attribute in _SAME_AS_REF:
            return physical_id.rpartition("/")[2]
        kind = self.synthesised.template["Resources"][logical_id]["Type"]
        if attribute != "Arn" or kind not in _ARNS:
            raise UnknownValueError(f"{attribute} of {kind} is not known here")
        last_part = physical_id if kind == "AWS::Logs::LogGroup" else physical_id.rpartition("/")[2]
        return _ARNS[kind].format(
            account=self.target.account, region=self.target.region, id=last_part
        )

    @cached_property
    def _parameters(self) -> dict[str, str]:
        """Return the values of the stack's parameters, those from Systems Manager resolved."""
        (stack,) = self.target.client("cloudformation").describe_stacks(StackName=self.name)[
            "Stacks"
        ]
        return {
            each["ParameterKey"]: each.get("ResolvedValue") or each["ParameterValue"]
            for each in stack.get("Parameters", [])
        }

    def _export(self, name: str) -> str:
        if name not in self._exports:
            raise UnknownValueError(f"no stack exports {name}")
        return self._exports[name]

    @cached_property
    def _exports(self) -> dict[str, str]:
        pages = self.target.client("cloudformation").get_paginator("list_exports").paginate()
        return {each["Name"]: each["Value"] for page in pages for each in page["Exports"]}
