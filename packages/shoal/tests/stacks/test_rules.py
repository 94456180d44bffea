"""Our rules on templates: each broken rule is found on the right resource, and correct templates
pass. packages/shoal/tests/settings/test_schedules.py tests the grammar of schedules.
"""

from __future__ import annotations

from typing import Any

import pytest

from shoal.constructs import validation
from shoal.constructs.validation import Finding, Rule, Template
from tests.tables import table

GROUP = {"Fn::GetAtt": ["Nodes", "GroupId"]}
ALL = {"GroupId": GROUP, "IpProtocol": "-1"}


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


ALL_IN = resource("EC2::SecurityGroupIngress", **ALL, SourceSecurityGroupId=GROUP)
ALL_OUT = resource("EC2::SecurityGroupEgress", **ALL, DestinationSecurityGroupId=GROUP)
NODES = resource(
    "EC2::SecurityGroup", SecurityGroupEgress=[{"CidrIp": "0.0.0.0/0", "IpProtocol": "tcp"}]
)


def pipeline(name: str) -> dict[str, Any]:
    return resource("SageMaker::Pipeline", PipelineName=name)


RULES: dict[str, tuple[Rule, str]] = {
    "SecurityGroupBothWays": (validation.check_security_groups, validation.BOTH_WAYS),
    "NotFromEverywhere": (validation.check_security_groups, validation.NOT_FROM_EVERYWHERE),
    "FileSystem": (validation.check_file_systems, validation.COMBINATION),
    "NoDeletions": (validation.check_file_systems, validation.NO_DELETIONS),
    "PipelineName": (validation.check_pipelines, validation.PIPELINE_NAME),
    "Trust": (validation.check_roles, validation.TRUST),
    "Expression": (validation.check_schedules, validation.EXPRESSION),
}


@pytest.mark.parametrize("row", table(__file__, "rules.yaml"), ids=lambda row: row["case"])
def test_a_broken_rule_is_found_on_its_resource(row: dict[str, Any]) -> None:
    check, rule = RULES[row["rule"]]
    findings: list[Finding] = list(check({"Resources": row["resources"]}))
    on = next(iter(row["resources"]))
    assert [(each.rule, each.logical_id) for each in findings] == [(rule, on)] * ("says" in row)
    assert row.get("says", "") in "".join(each.text for each in findings)


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
