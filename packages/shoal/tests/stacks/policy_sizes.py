"""The sizes of a template's IAM policies as IAM counts them, next to IAM's quotas.

A token that only the deployment resolves counts as `TOKEN_CHARACTERS`, about as many as the ARNs of
an environment have. Source of the quotas: IAM user guide, "IAM and AWS STS quotas".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

TOKEN_CHARACTERS = 80
PSEUDO = {"AWS::Partition": 3, "AWS::AccountId": 12, "AWS::Region": 14, "AWS::URLSuffix": 13}
MAX_INLINE, MAX_TRUST, MAX_MANAGED, MAX_ATTACHED = 10_240, 2_048, 6_144, 10


@dataclass(frozen=True, order=True)
class Use:
    """How much of a quota a role or policy uses; ordered by the share."""

    share: float = field(init=False)
    of: str
    quota: str
    used: int
    limit: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", self.used / self.limit)

    def __str__(self) -> str:
        return f"{self.of}: {self.quota}, {self.used} of {self.limit} ({self.share:.0%})"


def uses(template: Mapping[str, Any]) -> Iterator[Use]:
    """Yield what a template's roles and managed policies use of IAM's quotas."""
    resources: Mapping[str, Any] = template["Resources"]
    of_type: dict[str, dict[str, Any]] = {}
    for key, resource in resources.items():
        of_type.setdefault(resource["Type"], {})[key] = resource.get("Properties", {})
    policies = of_type.get("AWS::IAM::Policy", {}).values()
    for key, role in of_type.get("AWS::IAM::Role", {}).items():
        inline = [*role.get("Policies", [])]
        inline += [each for each in policies if {"Ref": key} in each.get("Roles", [])]
        name = str(role.get("RoleName", key))
        used = sum(characters(each["PolicyDocument"]) for each in inline)
        yield Use(name, "inline policies", used, MAX_INLINE)
        trust = characters(role["AssumeRolePolicyDocument"])
        yield Use(name, "trust policy", trust, MAX_TRUST)
        attached = role.get("ManagedPolicyArns", [])
        yield Use(name, "attached policies", len(attached), MAX_ATTACHED)
    for key, policy in of_type.get("AWS::IAM::ManagedPolicy", {}).items():
        yield Use(key, "managed policy", characters(policy["PolicyDocument"]), MAX_MANAGED)


def characters(document: Any) -> int:
    """Return the size of a policy document once it is deployed, without white space."""
    return len(re.sub(r"\s", "", json.dumps(_deployed(document))))


def _deployed(value: Any) -> Any:
    """Return a document with text as long as its tokens become."""
    if isinstance(value, list):
        return [_deployed(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if len(value) != 1 or not _is_function(next(iter(value))):
        return {key: _deployed(inner) for key, inner in value.items()}
    ((function, argument),) = value.items()
    if function == "Fn::Join":
        return argument[0].join(str(_deployed(part)) for part in argument[1])
    if function == "Fn::If":
        return max((_deployed(branch) for branch in argument[1:]), key=lambda each: len(str(each)))
    return "x" * PSEUDO.get(str(argument), TOKEN_CHARACTERS)


def _is_function(name: str) -> bool:
    return name == "Ref" or name.startswith("Fn::")
