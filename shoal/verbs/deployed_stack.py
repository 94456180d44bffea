"""A synthesised stack and its live twin go in; what its template says with the names that
CloudFormation made up comes out.

Only what our templates use of the intrinsic functions is known; anything else is said to be unknown
rather than guessed.
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
"""CloudFormation's word for a stack that does not exist."""
_SAME_AS_REF = frozenset(
    {"GroupId", "ModelName", "EndpointConfigName", "EndpointName", "VpcId", "SubnetId"}
)


class UnknownValueError(ShoalError):
    """A part of a template that cannot be compared, because what it becomes is not known."""


def describe_stack(target: Target, name: str) -> dict[str, Any] | None:
    """As CloudFormation tells it; None where there is no such stack, or none any more."""
    try:
        (found,) = target.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if error_code(error) == _NO_STACK:
            return None
        raise
    return None if found["StackStatus"] == "DELETE_COMPLETE" else dict(found)


def status_of_stack(target: Target, name: str) -> str | None:
    """StackStatus as CloudFormation says it; None where there is no such stack, or nothing of it
    yet.
    """
    found = describe_stack(target, name)
    return (
        str(found["StackStatus"])
        if found and found["StackStatus"] != "REVIEW_IN_PROGRESS"
        else None
    )


@dataclass(frozen=True)
class DeployedStack:
    """Lazily asks CloudFormation, once per question."""

    target: Target
    synthesised: SynthesisedStack

    @property
    def name(self) -> str:
        return self.synthesised.name

    @cached_property
    def physical_ids(self) -> dict[str, str]:
        """Logical id -> physical id. Raises NotFoundError when there is no such stack."""
        pages = (
            self.target.client("cloudformation")
            .get_paginator("list_stack_resources")
            .paginate(StackName=self.name)
        )
        try:
            found = [each for page in pages for each in page["StackResourceSummaries"]]
        except ClientError as error:
            if error_code(error) == _NO_STACK:
                raise NotFoundError(
                    f"there is no stack {self.name} in {self.target.description}"
                ) from error
            raise
        return {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for each in found
            if each.get("PhysicalResourceId")
        }

    def value(self, said: Any) -> Any:
        """What a value of the template becomes. Raises UnknownValueError."""
        if isinstance(said, list):
            return [self.value(each) for each in said if each != {"Ref": "AWS::NoValue"}]
        if not isinstance(said, Mapping):
            return said
        if len(said) == 1:
            ((function, argument),) = said.items()
            if function == "Ref" or function.startswith("Fn::"):
                return self._intrinsic(function, argument)
        return {
            key: self.value(each) for key, each in said.items() if each != {"Ref": "AWS::NoValue"}
        }

    def of_type(self, resource_type: str) -> dict[str, Json]:
        """Logical id -> properties as the template says them, nothing filled in."""
        return self.synthesised.of_type(resource_type)

    def physical_id(self, logical_id: str) -> str:
        """Raises UnknownValueError for what is in the files and not yet deployed."""
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
            return self._exported(argument)
        raise UnknownValueError(f"{function} in the template of {self.name} is not known here")

    def _ref(self, logical_id: str) -> str:
        pseudo = {
            "AWS::AccountId": self.target.account,
            "AWS::Region": self.target.region,
            "AWS::Partition": "aws",
        }
        pseudo |= {"AWS::URLSuffix": "amazonaws.com", "AWS::StackName": self.name}
        return (
            pseudo.get(logical_id)
            or self._parameters.get(logical_id)
            or self.physical_id(logical_id)
        )

    def _attribute(self, logical_id: str, attribute: str) -> str:
        physical = self.physical_id(logical_id)
        if attribute in _SAME_AS_REF:
            return physical.rpartition("/")[2]
        kind = self.synthesised.template["Resources"][logical_id]["Type"]
        if attribute != "Arn" or kind not in _ARNS:
            raise UnknownValueError(f"{attribute} of {kind} is not known here")
        identity = physical if kind == "AWS::Logs::LogGroup" else physical.rpartition("/")[2]
        return _ARNS[kind].format(
            account=self.target.account, region=self.target.region, id=identity
        )

    @cached_property
    def _parameters(self) -> dict[str, str]:
        """Values of the stack's parameters; of those that name a parameter of Systems Manager, what
        was found there.
        """
        (stack,) = self.target.client("cloudformation").describe_stacks(StackName=self.name)[
            "Stacks"
        ]
        return {
            each["ParameterKey"]: each.get("ResolvedValue") or each["ParameterValue"]
            for each in stack.get("Parameters", [])
        }

    def _exported(self, name: str) -> str:
        if name not in self._exports:
            raise UnknownValueError(f"no stack exports {name}")
        return self._exports[name]

    @cached_property
    def _exports(self) -> dict[str, str]:
        pages = self.target.client("cloudformation").get_paginator("list_exports").paginate()
        return {each["Name"]: each["Value"] for page in pages for each in page["Exports"]}
