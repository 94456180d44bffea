"""SageMaker pipelines: their names, and whether the network of their training jobs carries EFA."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.constructs.validation import security_groups
from shoal.constructs.validation.findings import Finding, Template, resources

NAME = "SHOAL-PipelineName"
NETWORK = "SHOAL-TrainingNetwork"
# SageMaker lower-cases pipeline ARNs: a name in mixed case never matches in IAM and EventBridge.
# botocore, sagemaker PipelineName.
_NAME = re.compile(r"[a-z0-9](-*[a-z0-9]){0,255}")
_NOT_ALL_TRAFFIC = (
    "no security group of its jobs allows itself all traffic both ways, which EFA needs"
)
_TRAINS = re.compile(r"\bType\W+(Training|Tuning)\b")
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


def check_network(templates: Mapping[str, Template]) -> Iterator[tuple[str, Finding]]:
    """Yield pipelines whose steps use security groups of which none carries EFA, with the paths of
    their templates; `templates` are all of one stage, by path.

    A group that exists already, named by its id, cannot be seen from here. Where there is one, it
    may be that of the training nodes.
    """
    exported = dict(each for template in templates.values() for each in _exported(template))
    for path, template in templates.items():
        for logical_id, properties in resources(template, "AWS::SageMaker::Pipeline"):
            imports = map(str, _arguments(properties, "Fn::ImportValue"))
            attributed = [str(each[0]) for each in _arguments(properties, "Fn::GetAtt")]
            own = _own_groups(template)
            groups = [exported[name] for name in imports if name in exported]
            groups += [(template, name) for name in attributed if name in own]
            if (
                groups
                and not _only_scores(text := json.dumps(properties))
                and not _GROUP_ID.search(text)
                and not any(security_groups.carries_efa(*each) for each in groups)
            ):
                yield path, Finding(NETWORK, logical_id, _NOT_ALL_TRAFFIC)


def _only_scores(definition: str) -> bool:
    """Return whether its jobs are transforms, whose one instance talks to no other."""
    return "Transform" in definition and _TRAINS.search(definition) is None


def _own_groups(template: Template) -> set[str]:
    return {logical_id for logical_id, _ in resources(template, "AWS::EC2::SecurityGroup")}


def _exported(template: Template) -> Iterator[tuple[str, tuple[Template, str]]]:
    """Yield the name of each export that is a security group, with the group."""
    groups = _own_groups(template)
    for output in template.get("Outputs", {}).values():
        target = output.get("Value", {})
        owner = target.get("Fn::GetAtt", [None])[0] if isinstance(target, Mapping) else None
        if owner in groups and "Export" in output:
            yield output["Export"]["Name"], (template, owner)


def _arguments(value: Any, function: str) -> Iterator[Any]:
    """Yield the arguments of an intrinsic function, wherever it is in `value`."""
    if isinstance(value, Mapping):
        if function in value:
            yield value[function]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _arguments(inner, function)
