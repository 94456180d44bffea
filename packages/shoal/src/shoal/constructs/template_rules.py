"""Our own rules on templates as CloudFormation gets them, for mistakes that its schema, cfn-lint
and cdk-nag accept.

- Security groups: what a group allows itself it must allow both ways, and nothing may come in from
  everywhere. EFA's traffic needs both directions, and the CDK drops the egress rule where all
  outbound traffic is allowed (SageMaker developer guide, "Give training jobs access to resources in
  your VPC"; github.com/aws/aws-ofi-nccl, issue 663).
- Roles: a service may assume one only on behalf of an account, and a role is passed by its name to
  one service.
- SageMaker pipelines: whether the network of their training jobs carries EFA.

What environment files say of file systems, schedules and names is checked when they are read.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.pipelines.limits import objects_in

Template = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """One broken rule, on one resource."""

    rule: str
    logical_id: str
    text: str
    """What is wrong, and what to do."""


def resources(template: Template, *types: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield logical id and properties of each resource of these types."""
    for logical_id, resource in template.get("Resources", {}).items():
        if resource["Type"] in types:
            yield logical_id, resource.get("Properties", {})


def as_list(value: Any) -> list[Any]:
    """Return a policy's field, which may be one value or several, as a list."""
    return value if isinstance(value, list) else [value]


BOTH_WAYS = "SHOAL-SecurityGroupSelfRules"
NOT_FROM_EVERYWHERE = "SHOAL-SecurityGroupOpen"
ALL_TRAFFIC = ("-1", None, None)
_EVERYWHERE = {"0.0.0.0/0", "::/0"}
# Type of a rule by itself, the property of a group with rules in it, the property that names the
# other group.
_INGRESS = ("AWS::EC2::SecurityGroupIngress", "SecurityGroupIngress", "SourceSecurityGroupId")
_EGRESS = ("AWS::EC2::SecurityGroupEgress", "SecurityGroupEgress", "DestinationSecurityGroupId")

Ports = tuple[Any, Any, Any]
"""Protocol, first and last port; the ports are None for all traffic."""


def check_security_groups(template: Template) -> Iterator[Finding]:
    """Yield every broken rule of the template's security groups."""
    inwards, outwards = self_rules(template, _INGRESS), self_rules(template, _EGRESS)
    for group, ports in sorted(inwards ^ outwards, key=str):
        missing = "egress" if (group, ports) in inwards else "ingress"
        text = (
            f"the group allows itself {_ports_text(ports)} one way only; add the {missing} rule"
            " that names the group itself"
        )
        yield Finding(BOTH_WAYS, group, text)
    for logical_id, rule in _rules(template, _INGRESS):
        if _EVERYWHERE & {rule.get("CidrIp"), rule.get("CidrIpv6")}:
            yield Finding(
                NOT_FROM_EVERYWHERE,
                logical_id,
                "lets traffic in from every address; name a range or a group",
            )


def carries_efa(template: Template, group: str) -> bool:
    """Return whether the group (a logical id) allows itself all traffic, both ways."""
    both = self_rules(template, _INGRESS) & self_rules(template, _EGRESS)
    return (group, ALL_TRAFFIC) in both


def self_rules(template: Template, kind: tuple[str, str, str]) -> set[tuple[str, Ports]]:
    """Return what groups, by their logical ids, allow themselves in one direction."""
    return {
        (group, _ports(rule))
        for _, rule in _rules(template, kind)
        if (group := _group(rule.get("GroupId"))) and group == _group(rule.get(kind[2]))
    }


def _rules(
    template: Template, kind: tuple[str, str, str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every rule of one direction, with the logical id of its resource."""
    yield from resources(template, kind[0])
    for group, properties in resources(template, "AWS::EC2::SecurityGroup"):
        for rule in properties.get(kind[1], ()):
            yield group, {"GroupId": {"Ref": group}, **rule}


def _ports(rule: Mapping[str, Any]) -> Ports:
    protocol = str(rule["IpProtocol"])
    return ALL_TRAFFIC if protocol == "-1" else (protocol, rule.get("FromPort"), rule.get("ToPort"))


def _group(reference: Any) -> str | None:
    """Return the logical id that `Ref` or `Fn::GetAtt` means; None for groups of other stacks."""
    if isinstance(reference, Mapping):
        target = reference.get("Ref") or reference.get("Fn::GetAtt")
        return str(target[0] if isinstance(target, list) else target) if target else None
    return None


def _ports_text(ports: Ports) -> str:
    if ports == ALL_TRAFFIC:
        return "all traffic"
    return f"{ports[0]} {json.dumps(ports[1])} to {json.dumps(ports[2])}"


TRUST = "SHOAL-RoleTrust"
PASS = "SHOAL-PassRole"  # noqa: S105 - the name of a rule
_ACCOUNT_KEY = "aws:SourceAccount"


def check_roles(template: Template) -> Iterator[Finding]:
    """Yield every broken rule of the template's roles and policies."""
    for logical_id, properties in resources(template, "AWS::IAM::Role"):
        for statement in as_list(properties["AssumeRolePolicyDocument"]["Statement"]):
            yield from (Finding(TRUST, logical_id, text) for text in _trust_mistakes(statement))
    for logical_id, document in _documents(template):
        for statement in as_list(document["Statement"]):
            yield from (Finding(PASS, logical_id, text) for text in _pass_mistakes(statement))


def _documents(template: Template) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every identity policy, separate or in a role, with its resource's logical id."""
    for logical_id, properties in resources(
        template, "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"
    ):
        yield logical_id, properties["PolicyDocument"]
    for logical_id, properties in resources(template, "AWS::IAM::Role"):
        for policy in properties.get("Policies", []):
            yield logical_id, policy["PolicyDocument"]


def _trust_mistakes(statement: Mapping[str, Any]) -> Iterator[str]:
    if statement["Effect"] != "Allow":
        return
    principal = statement.get("Principal", {})
    named = principal if isinstance(principal, Mapping) else {"AWS": principal}
    if "*" in as_list(named.get("AWS", [])):
        yield "anybody may assume it; name who may"
    if "Service" in named and _ACCOUNT_KEY not in json.dumps(statement.get("Condition", {})):
        yield f"any account's service may assume it; add a condition on {_ACCOUNT_KEY}"


def _pass_mistakes(statement: Mapping[str, Any]) -> Iterator[str]:
    actions = {str(action).lower() for action in as_list(statement.get("Action", []))}
    if statement["Effect"] != "Allow" or not actions & {"iam:passrole", "iam:*", "*"}:
        return
    if "*" in json.dumps(statement.get("Resource")):
        yield "passes roles by a pattern; name each role"
    if "iam:PassedToService" not in json.dumps(statement.get("Condition", {})):
        yield "passes roles to any service; add a condition on iam:PassedToService"


TRAINING_NETWORK = "SHOAL-TrainingNetwork"
_NOT_ALL_TRAFFIC = (
    "no security group of its jobs allows itself all traffic both ways, which EFA needs"
)
_TRAINS = re.compile(r"\bType\W+(Training|Tuning)\b")
_GROUP_ID = re.compile(r"\bsg-[0-9a-f]{8,17}\b")


def check_network(templates: Mapping[str, Template]) -> Iterator[tuple[str, Finding]]:
    """Yield pipelines whose steps use security groups of which none carries EFA, with the paths of
    their templates; `templates` are all of one stage, by path.

    A group that exists already, named by its id, cannot be seen from here. Where there is one, it
    may be that of the training nodes.
    """
    exported = dict(each for template in templates.values() for each in _exported(template))
    for path, template in templates.items():
        for logical_id, properties in resources(template, "AWS::SageMaker::Pipeline"):
            references = [*objects_in(properties)]
            imports = [str(each.get("Fn::ImportValue")) for each in references]
            attributed = [each["Fn::GetAtt"][0] for each in references if "Fn::GetAtt" in each]
            own = _own_groups(template)
            groups = [exported[name] for name in imports if name in exported]
            groups += [(template, name) for name in attributed if name in own]
            if (
                groups
                and not _only_scores(text := json.dumps(properties))
                and not _GROUP_ID.search(text)
                and not any(carries_efa(*each) for each in groups)
            ):
                yield path, Finding(TRAINING_NETWORK, logical_id, _NOT_ALL_TRAFFIC)


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


def findings(templates: Mapping[str, Template]) -> Iterator[tuple[str, Finding]]:
    """Yield the path of a template and what is wrong with it, for all templates.

    The templates of one stage lie in one folder.
    """
    stages: dict[Path, dict[str, Template]] = defaultdict(dict)
    for path, template in templates.items():
        stages[Path(path).parent][path] = template
        for rule in (check_security_groups, check_roles):
            yield from ((path, finding) for finding in rule(template))
    for stage in stages.values():
        yield from check_network(stage)
