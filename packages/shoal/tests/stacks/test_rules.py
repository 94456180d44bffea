"""Our rules on templates: each broken rule is found on the right resource, and correct templates
pass. packages/shoal/tests/settings/test_schedule_expressions.py tests the grammar of schedules.
"""

from __future__ import annotations

from typing import Any

import pytest

from shoal.constructs import validation
from shoal.constructs.validation import Finding, Rule, Template

GROUP = {"Fn::GetAtt": ["Nodes", "GroupId"]}
ALL = {"GroupId": GROUP, "IpProtocol": "-1"}


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


ALL_IN = resource("EC2::SecurityGroupIngress", **ALL, SourceSecurityGroupId=GROUP)
ALL_OUT = resource("EC2::SecurityGroupEgress", **ALL, DestinationSecurityGroupId=GROUP)
NODES = resource(
    "EC2::SecurityGroup", SecurityGroupEgress=[{"CidrIp": "0.0.0.0/0", "IpProtocol": "tcp"}]
)
PORT_IN = ALL_IN["Properties"] | {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988}
LUSTRE_IN = resource("EC2::SecurityGroupIngress", **PORT_IN)
ALL_IN_INSIDE = resource(
    "EC2::SecurityGroup",
    SecurityGroupIngress=[{"IpProtocol": "-1", "SourceSecurityGroupId": {"Ref": "Nodes"}}],
)
SSH = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22}
OPEN = resource("EC2::SecurityGroup", SecurityGroupIngress=[SSH | {"CidrIpv6": "::/0"}])


def lustre(capacity: int = 1200, kind: str = "SCRATCH_2", **changes: Any) -> dict[str, Any]:
    throughput = "PerUnitStorageThroughput"
    configuration = {"DeploymentType": kind}
    if throughput in changes:
        configuration[throughput] = changes.pop(throughput)
    properties = {
        "StorageCapacity": capacity,
        "FileSystemTypeVersion": "2.15",
        "SubnetIds": ["subnet-1"],
        "LustreConfiguration": configuration,
    }
    return resource("FSx::FileSystem", **properties | changes)


def association(*events: str) -> dict[str, Any]:
    policy = {"AutoExportPolicy": {"Events": [*events]}}
    return resource("FSx::DataRepositoryAssociation", S3=policy)


def pipeline(name: str) -> dict[str, Any]:
    return resource("SageMaker::Pipeline", PipelineName=name)


def assumable(**changes: Any) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sagemaker.amazonaws.com"},
        "Action": "sts:AssumeRole",
        **changes,
    }
    return resource("IAM::Role", AssumeRolePolicyDocument={"Statement": [statement]})


def scheduled(kind: str) -> dict[str, Any]:
    return resource(kind, ScheduleExpression="cron(0 1 * * * *)")


OWN_ACCOUNT = {"StringEquals": {"aws:SourceAccount": "111122223333"}}
ONE_WAY, TRUST = validation.BOTH_WAYS, validation.TRUST
COMBINATION, EXPRESSION = validation.COMBINATION, validation.EXPRESSION
Found = tuple[str, str, str] | None
"""Rule, logical id, and a part of the text; None where nothing is found."""
Row = tuple[Rule, dict[str, Any], Found]
GROUPS: list[Row] = [
    (validation.check_security_groups, resources, found)
    for resources, found in (
        ({"Nodes": NODES, "In": ALL_IN}, (ONE_WAY, "Nodes", "add the egress rule")),
        ({"Nodes": NODES, "Out": ALL_OUT}, (ONE_WAY, "Nodes", "add the ingress rule")),
        ({"Nodes": NODES, "In": ALL_IN, "Out": ALL_OUT}, None),
        ({"Nodes": ALL_IN_INSIDE, "Out": ALL_OUT}, None),
        ({"Nodes": NODES, "In": LUSTRE_IN}, (ONE_WAY, "Nodes", "tcp 988 to 988 one way only")),
        ({"Open": OPEN}, (validation.NOT_FROM_EVERYWHERE, "Open", "from every address")),
    )
]
FILE_SYSTEMS: list[Row] = [
    (validation.check_file_systems, {"Fast": each}, (COMBINATION, "Fast", text) if text else None)
    for each, text in (
        (lustre(3600), "StorageCapacity is 3600"),
        (lustre(1201), "StorageCapacity is 1201"),
        (lustre(kind="SCRATCH_1"), "DeploymentType is SCRATCH_1"),
        (lustre(PerUnitStorageThroughput=125), "SCRATCH_2 takes none"),
        (lustre(kind="PERSISTENT_2"), "PERSISTENT_2 needs one of 125, 250, 500, 1000"),
        (
            lustre(kind="PERSISTENT_2", PerUnitStorageThroughput=300),
            "PerUnitStorageThroughput is 300",
        ),
        (lustre(FileSystemTypeVersion="2.10"), "FileSystemTypeVersion is 2.10"),
        (lustre(SubnetIds=["subnet-1", "subnet-2"]), "exactly one subnet"),
        (lustre(), ""),
        (lustre(4800), ""),
        (lustre(2400, "PERSISTENT_2", PerUnitStorageThroughput=1000), ""),
    )
]
OTHERS: list[Row] = [
    (
        validation.check_file_systems,
        {"Link": association("NEW", "DELETED")},
        (validation.NO_DELETIONS, "Link", "carries deletions to the bucket"),
    ),
    *(
        (
            validation.check_pipelines,
            {"Train": pipeline(name)},
            (validation.PIPELINE_NAME, "Train", f"{name}: use"),
        )
        for name in ("Shoal-mnist", "shoal_mnist", "-shoal", "shoal-", "")
    ),
    (validation.check_roles, {"Role": assumable()}, (TRUST, "Role", "any account's service may")),
    (validation.check_roles, {"Role": assumable(Condition=OWN_ACCOUNT)}, None),
    *(
        (
            validation.check_roles,
            {"Role": assumable(Principal=principal)},
            (TRUST, "Role", "anybody may assume it"),
        )
        for principal in ("*", {"AWS": "*"}, {"AWS": ["arn:aws:iam::111122223333:role/x", "*"]})
    ),
    *(
        (
            validation.check_schedules,
            {"Nightly": scheduled(kind)},
            (EXPRESSION, "Nightly", "cron(0 1 * * * *)"),
        )
        for kind in ("Events::Rule", "Scheduler::Schedule")
    ),
]


@pytest.mark.parametrize(("check", "resources", "found"), [*GROUPS, *FILE_SYSTEMS, *OTHERS])
def test_a_broken_rule_is_found_on_its_resource(
    check: Rule, resources: dict[str, Any], found: Found
) -> None:
    findings: list[Finding] = list(check({"Resources": resources}))
    assert [(each.rule, each.logical_id) for each in findings] == ([found[:2]] if found else [])
    assert not found or found[2] in findings[0].text


def test_a_group_that_allows_itself_both_ways_carries_efa() -> None:
    both = {"Resources": {"Nodes": NODES, "In": ALL_IN, "Out": ALL_OUT}}
    assert validation.carries_efa(both, "Nodes")
    assert not validation.carries_efa({"Resources": {"Nodes": NODES, "In": ALL_IN}}, "Nodes")


IMPORTED = {"Fn::ImportValue": "net:Nodes"}
EXISTING = "sg-0123456789abcdef0"


@pytest.mark.parametrize(
    ("network", "own", "groups", "found"),
    [
        pytest.param([ALL_IN], [], [IMPORTED], True, id="does not carry EFA"),
        pytest.param([ALL_IN, ALL_OUT], [], [IMPORTED], False, id="carries EFA"),
        pytest.param([ALL_IN], [], [IMPORTED, EXISTING], False, id="one is there already"),
        pytest.param([], [ALL_IN], [IMPORTED, GROUP], True, id="own stack's does not"),
        pytest.param([], [ALL_IN, ALL_OUT], [IMPORTED, GROUP], False, id="own stack's carries EFA"),
    ],
)
def test_a_pipeline_has_a_security_group_that_carries_efa(
    network: list[Any], own: list[Any], groups: list[Any], found: bool
) -> None:
    body = {"Fn::Join": ["", ['{"SecurityGroupIds": ["', *groups, '"]}']]}
    train = pipeline("train")
    train["Properties"]["PipelineDefinition"] = {"PipelineDefinitionBody": body}
    exported = {"Nodes": {"Value": GROUP, "Export": {"Name": "net:Nodes"}}}
    stage: dict[str, Template] = {
        "network.json": {"Resources": _nodes(network), "Outputs": exported},
        "pipeline.json": {"Resources": {"Train": train} | (_nodes(own) if own else {})},
    }
    findings = [
        (path, each.rule, each.logical_id) for path, each in validation.check_network(stage)
    ]
    assert findings == ([("pipeline.json", validation.TRAINING_NETWORK, "Train")] if found else [])


def _nodes(rules: list[Any]) -> dict[str, Any]:
    return {"Nodes": NODES} | {f"Rule{number}": rule for number, rule in enumerate(rules)}


TO_SAGEMAKER = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
PASSED = "arn:aws:iam::111122223333:role"


@pytest.mark.parametrize(
    ("action", "resources", "condition", "count"),
    [
        ("iam:PassRole", f"{PASSED}/training", TO_SAGEMAKER, 0),
        (["iam:PassRole"], f"{PASSED}/*", TO_SAGEMAKER, 1),
        ("iam:PassRole", f"{PASSED}/training", {}, 1),
        ("iam:*", "*", {}, 2),
        ("s3:GetObject", "*", {}, 0),
    ],
)
def test_a_role_is_passed_by_its_name_to_one_service(
    action: Any, resources: str, condition: dict[str, Any], count: int
) -> None:
    statement = {"Effect": "Allow", "Action": action, "Resource": resources}
    document = {"Statement": statement | ({"Condition": condition} if condition else {})}
    inline = [{"PolicyName": "inline", "PolicyDocument": document}]
    for each in (
        resource("IAM::Policy", PolicyDocument=document),
        resource("IAM::Role", AssumeRolePolicyDocument={"Statement": []}, Policies=inline),
    ):
        findings = validation.check_roles({"Resources": {"Passing": each}})
        assert [finding.rule for finding in findings] == [validation.PASS] * count
