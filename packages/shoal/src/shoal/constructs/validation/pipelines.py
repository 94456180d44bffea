"""SageMaker pipelines: their names, and whether the network of their training jobs carries EFA."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoal.constructs.validation import security_groups
from shoal.constructs.validation.findings import Finding, Template, resources

NAME = "SHOAL-PipelineName"
NETWORK = "SHOAL-TrainingNetwork"
# SageMaker lower-cases pipeline ARNs: a name in mixed case never matches in IAM and EventBridge.
# botocore, sagemaker PipelineName.
_NAME = re.compile(r"[a-z0-9](-*[a-z0-9]){0,255}")
_GROUP_ID = re.compile(r"\bsg-[0-9a-f]{8,17}\b")


def check(template: Template) -> Iterator[Finding]:
    """Yield names of pipelines that would not match their own ARN."""
    for logical_id, properties in resources(template, "AWS::SageMaker::Pipeline"):
        name = properties.get("PipelineName", "")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield Finding(
                NAME,
                logical_id,
                f"{name}: use lower-case letters, digits and single hyphens, at most 256",
            )


def check_network(templates: Sequence[Template]) -> Iterator[Finding]:
    """Yield pipelines whose steps use security groups of which none carries EFA.

    A group that exists already, named by its id, cannot be seen from here. Where there is one, it
    may be that of the training nodes.
    """
    exported = dict(export for template in templates for export in _exported_groups(template))
    for template in templates:
        for logical_id, properties in resources(template, "AWS::SageMaker::Pipeline"):
            groups = [exported[name] for name in _imports(properties) if name in exported]
            own = _own_groups(template)
            groups += [(template, name) for name in _attributed(properties) if name in own]
            if (
                groups
                and not _names_a_group(properties)
                and not any(security_groups.carries_efa(owner, group) for owner, group in groups)
            ):
                text = (
                    "no security group of its jobs allows itself all traffic both ways, which EFA"
                    " needs"
                )
                yield Finding(NETWORK, logical_id, text)


def _names_a_group(properties: Mapping[str, Any]) -> bool:
    return _GROUP_ID.search(json.dumps(properties)) is not None


def _own_groups(template: Template) -> set[str]:
    return {logical_id for logical_id, _ in resources(template, "AWS::EC2::SecurityGroup")}


def _exported_groups(template: Template) -> Iterator[tuple[str, tuple[Template, str]]]:
    groups = _own_groups(template)
    for output in template.get("Outputs", {}).values():
        target = output.get("Value", {})
        owner = target.get("Fn::GetAtt", [None])[0] if isinstance(target, Mapping) else None
        if owner in groups and "Export" in output:
            yield output["Export"]["Name"], (template, owner)


def _imports(value: Any) -> Iterator[str]:
    """Yield the names of all exports that are used in `value`."""
    return map(str, _arguments(value, "Fn::ImportValue"))


def _attributed(value: Any) -> Iterator[str]:
    """Yield the logical ids of the resources whose attributes are used in `value`."""
    return (str(argument[0]) for argument in _arguments(value, "Fn::GetAtt"))


def _arguments(value: Any, function: str) -> Iterator[Any]:
    """Yield the arguments of an intrinsic function, wherever it is in `value`."""
    if isinstance(value, Mapping):
        if function in value:
            yield value[function]
        for inner in value.values():
            yield from _arguments(inner, function)
    elif isinstance(value, list):
        for inner in value:
            yield from _arguments(inner, function)
