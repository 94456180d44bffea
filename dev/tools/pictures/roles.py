"""The charts of an environment's roles: who assumes each, and what each reads and writes in S3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dev.tools.pictures.deployment import Deployment
from dev.tools.pictures.mermaid import Chart, Group, Node
from dev.tools.pictures.network import bucket_name

_SERVICES = {
    "codebuild": "CodeBuild",
    "lambda": "Lambda",
    "sagemaker": "SageMaker",
    "scheduler": "EventBridge Scheduler",
    "vpc-flow-logs": "VPC flow logs",
}
_READING, _WRITING = "s3:GetObject", "s3:PutObject"
_ARROWS = {"iam:PassRole": "hands over", "lambda:InvokeFunction": "calls"}

Statement = dict[str, Any]


@dataclass(frozen=True)
class Role:
    """A role of the templates, with what it is allowed."""

    name: str
    stack: str
    description: str
    principal: str
    allowed: tuple[Statement, ...]

    @property
    def services(self) -> list[str]:
        """The services whose actions it may use, as IAM calls them."""
        return sorted({action.partition(":")[0] for action in self.actions})

    @property
    def actions(self) -> set[str]:
        return {action for each in self.allowed for action in _list(each["Action"])}


def roles(deployment: Deployment) -> list[Role]:
    """Return the roles of all stacks, in the order of the templates."""
    policies = deployment.templates.identity_policies()
    found = []
    for stack, template in deployment.stacks.items():
        for resource in template["Resources"].values():
            if resource["Type"] != "AWS::IAM::Role":
                continue
            role = deployment.templates.resolved(resource["Properties"], template)
            (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
            documents = policies[role["RoleName"]].values()
            statements = (each for document in documents for each in document["Statement"])
            found.append(
                Role(
                    name_of(role["RoleName"], deployment.prefix),
                    stack,
                    role["Description"].replace(deployment.prefix, "PIPELINE").rstrip("."),
                    _SERVICES[trust["Principal"]["Service"].removesuffix(".amazonaws.com")],
                    tuple(each for each in statements if each["Effect"] == "Allow"),
                )
            )
    return found


def name_of(role: str, prefix: str) -> str:
    """Return what a role or its function is called in every environment, without a digest."""
    actor = re.sub(rf"^{re.escape(prefix)}-([a-z]+-[a-z]+-\d-)?", "", role)
    return re.sub(r"-[0-9a-f]{6}$", "", actor)


def trust(deployment: Deployment) -> Chart:
    """Return the roles of a workload's pipeline in a frame for each service that assumes them;
    which role hands which to a job, and which calls the function of which.
    """
    chart = Chart("LR")
    for role in roles(deployment):
        if role.stack != "pipeline":
            continue
        key = f"role-{role.name}"
        chart.groups[role.principal] = Group(f"assumed by {role.principal}")
        chart.nodes[key] = Node((f"<b>{role.name}</b>", ", ".join(role.services)), role.principal)
        for statement in role.allowed:
            words = [_ARROWS[each] for each in _list(statement["Action"]) if each in _ARROWS]
            for arn in _list(statement["Resource"]) if words else ():
                other = name_of(re.split("[:/]", arn)[-1], deployment.prefix)
                chart.arrows[key, f"role-{other}"] = words[0]
    return chart


def objects(deployment: Deployment) -> Chart:
    """Return which role reads and writes where in the environment's buckets: arrows follow the
    data.
    """
    chart = Chart("LR")
    for role in roles(deployment):
        places: dict[str, set[str]] = {}
        for statement in role.allowed:
            for action in {_READING, _WRITING} & set(_list(statement["Action"])):
                for place in _places(statement, deployment.prefix):
                    places.setdefault(place, set()).add(action)
        for place, actions in places.items():
            chart.nodes[place] = Node((place,), stores=True)
            key = f"role-{role.name}"
            chart.nodes[key] = Node((f"<b>{role.name}</b>",))
            if _READING in actions:
                chart.arrows[place, key] = ""
            if _WRITING in actions:
                chart.arrows[key, place] = ""
    return chart


def _places(statement: Statement, prefix: str) -> Iterator[str]:
    """Yield bucket and prefix of each of the environment's places that a statement names."""
    for arn in _list(statement["Resource"]):
        if f":::{prefix}-" in arn:
            within = re.sub(r"[0-9a-f]{64}/.*|[*]$", "", arn.partition("/")[2])
            yield f"{bucket_name(arn, prefix)}/{within}"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
