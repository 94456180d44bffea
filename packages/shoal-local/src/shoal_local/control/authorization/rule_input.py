"""The input of a rule: one API call, and what the account knows about the resources that it
names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.control.authorization.account import AccountState
from shoal_local.control.http.iam_request import ContextValue, account_of
from shoal_local.control.http.protocol import ApiCall


@dataclass(frozen=True)
class RuleInput:
    """One call, with the resources of the account that it is in."""

    call: ApiCall
    resources: AccountState

    @property
    def account(self) -> str:
        return account_of(self.call.caller_arn)

    @property
    def region(self) -> str:
        return self.call.region

    def arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.account}:{resource}"

    def request_tags(self) -> dict[str, ContextValue]:
        """Return `aws:RequestTag/...` and `aws:TagKeys` of a call that tags a resource."""
        tags = dict(_tags_in(self.call.parameters))
        return {
            **{f"aws:RequestTag/{key}": value for key, value in tags.items()},
            **({"aws:TagKeys": list(tags)} if tags else {}),
        }

    def resource_tags(self, arn: str) -> dict[str, ContextValue]:
        """Return `aws:ResourceTag/...` of a resource that exists."""
        return {f"aws:ResourceTag/{key}": value for key, value in self.resources.tags(arn).items()}


def _tags_in(parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the tags of a request.

    They are a list of Key and Value (KMS: TagKey and TagValue) or a map, under `Tags` or `tags`.
    EC2 has them in TagSpecifications.
    """
    for name in ("Tags", "tags"):
        yield from _pairs(parameters.get(name))
    for specification in parameters.get("TagSpecifications") or []:
        yield from _pairs(specification.get("Tags"))


def _pairs(tags: Any) -> Iterator[tuple[str, str]]:
    if isinstance(tags, Mapping):
        tags = tags.get("TagSet") or [{"Key": key, "Value": value} for key, value in tags.items()]
    # A request that removes tags names their keys only.
    for tag in (each for each in tags or [] if isinstance(each, Mapping)):
        pair = {str(name).lower().removeprefix("tag"): value for name, value in tag.items()}
        if "key" in pair:
            yield str(pair["key"]), str(pair.get("value", ""))
