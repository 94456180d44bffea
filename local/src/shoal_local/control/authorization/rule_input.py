"""What a rule works with: one API call, and what the account knows about the resources that the
call names.

A rule turns a call into the questions that AWS asks IAM about it. Most are a line of a table: a
template of the resource's ARN, preceded by the action where it is not named like the operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from shoal_local.control.authorization.iam_request import ANY, ContextValue, Question, account_of
from shoal_local.control.protocol import ApiCall

FIELD = re.compile(r"\{(\w+)\}")


class Known(Protocol):
    """The state of the account, as far as questions depend on it."""

    def key_of_bucket(self, bucket: str) -> str | None:
        """ARN of the KMS key with which S3 encrypts what is put into the bucket; None when it uses
        no key of ours.
        """

    def key_of_object(self, bucket: str, key: str) -> str | None:
        """ARN of the KMS key with which the object is encrypted."""

    def has_bucket_key(self, bucket: str) -> bool:
        """Whether S3 Bucket Keys are on, so that one key of the bucket encrypts its objects."""

    def key_of_queue(self, name: str) -> str | None:
        """ARN of the KMS key with which SQS encrypts the queue."""

    def key_of_endpoint_config(self, name: str) -> str | None:
        """ARN of the KMS key with which SageMaker encrypts the volumes of an endpoint with this
        configuration.
        """

    def is_scaled(self, endpoint: str) -> bool:
        """Whether a variant of the endpoint is a target of Application Auto Scaling."""

    def key_arn(self, key: str) -> str:
        """ARN of a KMS key that a request names by id, ARN or alias; what it names when there is
        none.
        """

    def tags(self, arn: str) -> Mapping[str, str]:
        """Tags of the resource; none when it does not exist or has no tags."""

    def vpc_of(self, id_: str) -> str | None:
        """Id of the VPC in which a subnet, security group or route table is."""


class NothingKnown:
    """An account of which only the call itself is known."""

    def key_of_bucket(self, bucket: str) -> str | None:
        return None

    def key_of_object(self, bucket: str, key: str) -> str | None:
        return None

    def has_bucket_key(self, bucket: str) -> bool:
        return False

    def key_of_queue(self, name: str) -> str | None:
        return None

    def key_of_endpoint_config(self, name: str) -> str | None:
        return None

    def is_scaled(self, endpoint: str) -> bool:
        return False

    def key_arn(self, key: str) -> str:
        return key

    def tags(self, arn: str) -> Mapping[str, str]:
        return {}

    def vpc_of(self, id_: str) -> str | None:
        return None


@dataclass(frozen=True)
class Asked:
    """One call, with the account it is in."""

    call: ApiCall
    known: Known

    @property
    def account(self) -> str:
        return account_of(self.call.caller_arn)

    @property
    def region(self) -> str:
        return self.call.region

    def get(self, name: str, default: Any = None) -> Any:
        """A parameter of the call; `default` where it is absent or null."""
        value = self.call.parameters.get(name)
        return default if value is None else value

    def arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.account}:{resource}"

    def filled(self, service: str, template: str) -> str:
        """The ARN that a template means: `{Name}` is the parameter of that name, `*` where it is
        not given.
        """
        if template == ANY:
            return ANY
        whole = FIELD.fullmatch(template.rpartition("/")[2])
        given = str(self.get(whole.group(1), "")) if whole else ""
        if given.startswith("arn:"):
            return given
        filled = FIELD.sub(
            lambda found: (
                self.account if found.group(1) == "account" else str(self.get(found.group(1), ANY))
            ),
            template,
        )
        return filled if filled.startswith("arn:") else self.arn(service, filled)

    def tagging(self) -> dict[str, ContextValue]:
        """`aws:RequestTag/...` and `aws:TagKeys` of a call that gives a resource tags."""
        tags = dict(_tags_in(self.call.parameters))
        return {
            **{f"aws:RequestTag/{key}": value for key, value in tags.items()},
            **({"aws:TagKeys": list(tags)} if tags else {}),
        }

    def tags_of(self, arn: str) -> dict[str, ContextValue]:
        """`aws:ResourceTag/...` of a resource that exists."""
        return {f"aws:ResourceTag/{key}": value for key, value in self.known.tags(arn).items()}


Rule = Callable[[Asked], Iterable[Question]]


Line = str | tuple[str, ...] | Rule


def table(service: str, lines: Mapping[str, Line]) -> dict[str, Rule]:
    """Rules by operation. A line is a template, several, or a rule of its own."""
    return {
        operation: line if callable(line) else _rule(service, operation, line)
        for operation, line in lines.items()
    }


def _rule(service: str, operation: str, line: str | tuple[str, ...]) -> Rule:
    parsed = [
        _parsed(service, operation, each) for each in ((line,) if isinstance(line, str) else line)
    ]

    def rule(asked: Asked) -> Iterator[Question]:
        for action, template in parsed:
            resource = asked.filled(service, template)
            yield Question(action, resource, {**asked.tags_of(resource), **asked.tagging()})

    return rule


def _parsed(service: str, operation: str, line: str) -> tuple[str, str]:
    action, space, template = line.rpartition(" ")
    named = action if space else operation
    return (named if ":" in named else f"{service}:{named}"), template


def same(names: str, line: Line) -> dict[str, Line]:
    """One line for several operations, given as words."""
    return dict.fromkeys(names.split(), line)


def pass_role(role: str | None, service: str, resource: str = "") -> Iterator[Question]:
    """The question about handing `role` to `service`, where a request names a role."""
    if role:
        associated = {"iam:AssociatedResourceArn": resource} if resource else {}
        yield Question("iam:PassRole", role, {"iam:PassedToService": service, **associated})


def _tags_in(parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Tags are a list of Key and Value or a map, under `Tags` or `tags`; EC2 has them in
    TagSpecifications.
    """
    for name in ("Tags", "tags"):
        yield from _pairs(parameters.get(name))
    for specification in parameters.get("TagSpecifications") or []:
        yield from _pairs(specification.get("Tags"))


def _pairs(tags: Any) -> Iterator[tuple[str, str]]:
    if isinstance(tags, Mapping):
        tags = tags.get("TagSet") or [{"Key": key, "Value": value} for key, value in tags.items()]
    for tag in (
        each for each in tags or [] if isinstance(each, Mapping)
    ):  # tags to be taken away are keys alone
        pair = {str(name).lower(): value for name, value in tag.items()}
        if "key" in pair:
            yield str(pair["key"]), str(pair.get("value", ""))
