"""Synthesise the templates of environments, the gates off, and read their policies as they are
after deployment: every token is a value of the right shape.

An id that CloudFormation would generate is the logical id in the form of such an id (`subnet-
NetworkTrainingSubnet...`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local_kit.tables import table
from shoal.constructs import use_installed_node
from shoal.constructs.app import Deployment, feature_flags
from shoal.launch import launch_of
from shoal.settings.settings import Environment
from stacks.platform import EnvironmentStage
from tests.app import ShoalApp
from tests.repository import ROOT

Document = dict[str, Any]
ACCOUNT = "111122223333"
REGION = "us-east-1"
VALUES = table(__file__, "policies.yaml")["values"]
ARNS: dict[str, str] = VALUES["arns"]


@dataclass(frozen=True)
class Templates:
    """The templates of one environment's stacks, and the stacks that each is deployed after. An
    import finds the export of another template.
    """

    stacks: Mapping[str, Document]
    waits_for: Mapping[str, list[str]] = field(default_factory=dict)
    _exports: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for document in self.stacks.values():
            for output in document.get("Outputs", {}).values():
                if "Export" in output:
                    self._exports[output["Export"]["Name"]] = self.resolved(
                        output["Value"], document
                    )

    def resolved(self, value: Any, document: Document) -> Any:
        """Return `value` without CloudFormation's intrinsic functions."""
        if isinstance(value, list):
            return [self.resolved(item, document) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((function, argument),) = value.items()
            if function == "Ref":
                return VALUES["pseudo"].get(argument) or _reference(argument, document)
            if function == "Fn::GetAtt":
                return _attribute(*argument, document=document)
            if function == "Fn::ImportValue":
                return self._exports[argument]
            if function == "Fn::Join":
                return argument[0].join(str(part) for part in self.resolved(argument[1], document))
        return {key: self.resolved(child, document) for key, child in value.items()}

    def resources(self, *types: str) -> Iterator[tuple[str, Document]]:
        """Yield logical id and resolved properties of every resource of these types."""
        for document in self.stacks.values():
            for logical_id, resource in document["Resources"].items():
                if resource["Type"] in types:
                    yield logical_id, self.resolved(resource.get("Properties", {}), document)

    def identity_policies(self) -> dict[str, dict[str, Document]]:
        """Return documents by role name and policy name."""
        policies: dict[str, dict[str, Document]] = {}
        for logical_id, role in self.resources("AWS::IAM::Role"):
            inline = {
                policy["PolicyName"]: policy["PolicyDocument"]
                for policy in role.get("Policies", [])
            }
            policies[role.get("RoleName", logical_id)] = inline
        for _, policy in self.resources("AWS::IAM::Policy"):
            for role_name in policy["Roles"]:
                policies[role_name][policy["PolicyName"]] = policy["PolicyDocument"]
        return policies

    def trust_policies(self) -> dict[str, Document]:
        """Return the trust policy of each role, by its name."""
        return {
            role["RoleName"]: role["AssumeRolePolicyDocument"]
            for _, role in self.resources("AWS::IAM::Role")
        }

    def key_policies(self) -> dict[str, Document]:
        """Return each key's policy, by its ARN."""
        return {
            ARNS["AWS::KMS::Key"].format(logical_id): key["KeyPolicy"]
            for logical_id, key in self.resources("AWS::KMS::Key")
        }

    def documents(self) -> Iterator[tuple[str, Document]]:
        """Yield every policy document, of resources too, with the logical id it belongs to."""
        for document in self.stacks.values():
            for logical_id, resource in document["Resources"].items():
                for policy in _policies_in(self.resolved(resource.get("Properties", {}), document)):
                    yield logical_id, policy


def _reference(logical_id: str, document: Document) -> str:
    resource = document["Resources"].get(logical_id)
    if resource is None:
        return f"parameter-{logical_id}"
    if resource["Type"] == "AWS::SNS::Topic":
        return ARNS["AWS::SNS::Topic"].format(logical_id)
    named = resource.get("Properties", {}).get(VALUES["names"].get(resource["Type"], ""))
    return (
        named
        if isinstance(named, str)
        else VALUES["prefixes"].get(resource["Type"], "") + logical_id
    )


def _attribute(logical_id: str, attribute: str, *, document: Document) -> str:
    resource_type = document["Resources"][logical_id]["Type"]
    if attribute == "Arn":
        form = ARNS.get(
            resource_type, f"arn:aws:{resource_type.split('::')[1].lower()}:{REGION}:{ACCOUNT}:{{}}"
        )
        return form.format(_reference(logical_id, document))
    if attribute in ("GroupId", "SubnetId", "VpcId"):
        return _reference(logical_id, document)
    return f"{logical_id}.{attribute}"


def _policies_in(value: Any) -> Iterator[Document]:
    if isinstance(value, dict):
        if "Statement" in value and "Version" in value:
            yield value
            return
        for child in value.values():
            yield from _policies_in(child)
    elif isinstance(value, list):
        for child in value:
            yield from _policies_in(child)


def like(synthesised: Any, deployed: Any, templates: Templates) -> bool:
    """Return whether a document equals a synthesised one, except for the ids that CloudFormation
    generates.
    """
    if isinstance(synthesised, dict):
        return (
            isinstance(deployed, dict)
            and synthesised.keys() == deployed.keys()
            and all(like(value, deployed[key], templates) for key, value in synthesised.items())
        )
    if isinstance(synthesised, list):
        return (
            isinstance(deployed, list)
            and len(synthesised) == len(deployed)
            and all(
                like(one, other, templates)
                for one, other in zip(synthesised, deployed, strict=True)
            )
        )
    return (
        synthesised == deployed
        or _pattern(str(synthesised), templates).fullmatch(str(deployed)) is not None
    )


def _pattern(text: str, templates: Templates) -> re.Pattern[str]:
    ids = sorted(
        (key for document in templates.stacks.values() for key in document["Resources"]),
        key=len,
        reverse=True,
    )
    return re.compile(
        ".+".join(re.escape(part) for part in re.split("|".join(map(re.escape, ids)), text))
    )


use_installed_node()


def templates_of(
    environments: Sequence[Environment], root: Path, folder: Path, *, checked: bool = False
) -> Templates:
    """Return the templates of an environment, of which there is one setting for each workload, by
    an app that writes into `folder`.
    """
    context = feature_flags(ROOT)
    app = ShoalApp(outdir=str(folder), context=context, checked=checked)
    workloads = [Deployment(each, launch_of(each, root)) for each in environments]
    stage = EnvironmentStage(app, workloads=workloads, root=root)
    stacks = {stack.id: stack for stack in stage.synth().stacks}
    waits_for = {
        stack.stack_name: [
            stacks[each.id].stack_name for each in stack.dependencies if each.id in stacks
        ]
        for stack in stacks.values()
    }
    return Templates({stack.stack_name: stack.template for stack in stacks.values()}, waits_for)


def synthesised(environments: Mapping[str, Environment], folder: Path) -> dict[str, Templates]:
    """Return templates by the environments' names.

    Each has an app of its own, because stages of the same environment would have the same name.
    """
    return {name: templates_of([each], ROOT, folder / name) for name, each in environments.items()}
