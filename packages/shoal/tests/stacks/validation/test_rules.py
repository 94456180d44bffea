"""Our rules on templates: each broken rule is found on the right resource, and correct templates
pass.
"""

from __future__ import annotations

from typing import Any

import pytest

from shoal.constructs.validation import file_systems, identities, pipelines, security_groups
from shoal.constructs.validation.findings import Finding, Template

GROUP = {"Fn::GetAtt": ["Nodes", "GroupId"]}
ALL_IN = {
    "Type": "AWS::EC2::SecurityGroupIngress",
    "Properties": {"GroupId": GROUP, "IpProtocol": "-1", "SourceSecurityGroupId": GROUP},
}
ALL_OUT = {
    "Type": "AWS::EC2::SecurityGroupEgress",
    "Properties": {"GroupId": GROUP, "IpProtocol": "-1", "DestinationSecurityGroupId": GROUP},
}
NODES = {
    "Type": "AWS::EC2::SecurityGroup",
    "Properties": {"SecurityGroupEgress": [{"CidrIp": "0.0.0.0/0", "IpProtocol": "tcp"}]},
}


def template(**resources: Any) -> Template:
    return {"Resources": resources}


def lustre(capacity: int = 1200, kind: str = "SCRATCH_2", **changes: Any) -> dict[str, Any]:
    configuration = {"DeploymentType": kind} | {
        key: changes.pop(key) for key in ("PerUnitStorageThroughput",) if key in changes
    }
    properties = {
        "StorageCapacity": capacity,
        "FileSystemTypeVersion": "2.15",
        "SubnetIds": ["subnet-1"],
        "LustreConfiguration": configuration,
    }
    return {"Type": "AWS::FSx::FileSystem", "Properties": properties | changes}


def only(several: list[Finding]) -> tuple[str, str]:
    (finding,) = several
    return finding.rule, finding.logical_id


@pytest.mark.parametrize(("half", "missing"), [(ALL_IN, "egress"), (ALL_OUT, "ingress")])
def test_a_group_that_allows_itself_one_way_only_is_found_with_the_rule_that_is_missing(
    half: dict[str, Any], missing: str
) -> None:
    (finding,) = security_groups.check(template(Nodes=NODES, Half=half))
    assert (finding.rule, finding.logical_id) == (security_groups.BOTH_WAYS, "Nodes")
    assert f"add the {missing} rule" in finding.text


def test_a_group_that_allows_itself_both_ways_passes_and_carries_efa() -> None:
    checked = template(Nodes=NODES, In=ALL_IN, Out=ALL_OUT)
    assert list(security_groups.check(checked)) == []
    assert security_groups.carries_efa(checked, "Nodes")


def test_rules_inside_the_group_count_like_those_of_their_own() -> None:
    inside = {
        "SecurityGroupIngress": [{"IpProtocol": "-1", "SourceSecurityGroupId": {"Ref": "Nodes"}}]
    }
    checked = template(Nodes={"Type": "AWS::EC2::SecurityGroup", "Properties": inside}, Out=ALL_OUT)
    assert list(security_groups.check(checked)) == []


def test_ports_of_a_file_system_must_be_open_both_ways_too() -> None:
    lustre_in = {
        **ALL_IN,
        "Properties": ALL_IN["Properties"] | {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988},  # type: ignore[operator]
    }
    assert only(list(security_groups.check(template(Nodes=NODES, In=lustre_in)))) == (
        security_groups.BOTH_WAYS,
        "Nodes",
    )


def test_traffic_from_everywhere_is_found() -> None:
    inside = {
        "SecurityGroupIngress": [
            {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIpv6": "::/0"}
        ]
    }
    checked = template(Open={"Type": "AWS::EC2::SecurityGroup", "Properties": inside})
    assert only(list(security_groups.check(checked))) == (
        security_groups.NOT_FROM_EVERYWHERE,
        "Open",
    )


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        (lustre(3600), "StorageCapacity is 3600"),
        (lustre(0 + 1201), "StorageCapacity is 1201"),
        (lustre(kind="SCRATCH_1"), "DeploymentType is SCRATCH_1"),
        (lustre(PerUnitStorageThroughput=125), "SCRATCH_2 takes none"),
        (lustre(kind="PERSISTENT_2"), "PERSISTENT_2 needs one of 125, 250, 500, 1000"),
        (
            lustre(kind="PERSISTENT_2", PerUnitStorageThroughput=300),
            "PerUnitStorageThroughput is 300",
        ),
        (lustre(FileSystemTypeVersion="2.10"), "FileSystemTypeVersion is 2.10"),
        (lustre(SubnetIds=["subnet-1", "subnet-2"]), "exactly one subnet"),
    ],
)
def test_a_file_system_that_fsx_would_refuse_is_found(resource: dict[str, Any], text: str) -> None:
    (finding,) = file_systems.check(template(Fast=resource))
    assert text in finding.text


@pytest.mark.parametrize(
    "resource",
    [lustre(), lustre(4800), lustre(2400, "PERSISTENT_2", PerUnitStorageThroughput=1000)],
)
def test_a_file_system_that_fsx_takes_passes(resource: dict[str, Any]) -> None:
    assert list(file_systems.check(template(Fast=resource))) == []


def test_an_association_that_deletes_in_the_bucket_is_found() -> None:
    policy = {"S3": {"AutoExportPolicy": {"Events": ["NEW", "DELETED"]}}}
    checked = template(Link={"Type": "AWS::FSx::DataRepositoryAssociation", "Properties": policy})
    assert only(list(file_systems.check(checked))) == (file_systems.NO_DELETIONS, "Link")


@pytest.mark.parametrize("name", ["Shoal-mnist", "shoal_mnist", "-shoal", "shoal-", ""])
def test_a_pipeline_name_that_its_own_arn_would_not_match_is_found(name: str) -> None:
    checked = template(
        Train={"Type": "AWS::SageMaker::Pipeline", "Properties": {"PipelineName": name}}
    )
    assert only(list(pipelines.check(checked))) == (pipelines.NAME, "Train")


def _stage(*rules: dict[str, Any]) -> list[Template]:
    network = template(Nodes=NODES, **{f"Rule{index}": rule for index, rule in enumerate(rules)})
    exported = {"Outputs": {"Nodes": {"Value": GROUP, "Export": {"Name": "net:Nodes"}}}}
    body = {"Fn::Join": ["", ['{"SecurityGroupIds": ["', {"Fn::ImportValue": "net:Nodes"}, '"]}']]}
    properties = {"PipelineName": "train", "PipelineDefinition": {"PipelineDefinitionBody": body}}
    return [
        {**network, **exported},
        template(Train={"Type": "AWS::SageMaker::Pipeline", "Properties": properties}),
    ]


def test_a_pipeline_in_a_group_that_does_not_carry_efa_is_found() -> None:
    assert only(list(pipelines.check_network(_stage(ALL_IN)))) == (pipelines.NETWORK, "Train")
    assert list(pipelines.check_network(_stage(ALL_IN, ALL_OUT))) == []


def test_a_group_that_is_there_already_may_carry_efa() -> None:
    network, stack = _stage(ALL_IN)
    stack["Resources"]["Train"]["Properties"]["PipelineDefinition"]["PipelineDefinitionBody"][
        "Fn::Join"
    ][1].append("sg-0123456789abcdef0")
    assert list(pipelines.check_network([network, stack])) == []


@pytest.mark.parametrize(
    ("rules", "found"), [((ALL_IN,), [pipelines.NETWORK]), ((ALL_IN, ALL_OUT), [])]
)
def test_a_group_of_the_pipelines_own_stack_may_carry_efa(
    rules: tuple[dict[str, Any], ...], found: list[str]
) -> None:
    network, stack = _stage()
    body = stack["Resources"]["Train"]["Properties"]["PipelineDefinition"]
    body["PipelineDefinitionBody"]["Fn::Join"][1].append(GROUP)
    own = template(Nodes=NODES, **{f"Rule{index}": rule for index, rule in enumerate(rules)})
    whole = {**stack, "Resources": {**stack["Resources"], **own["Resources"]}}
    assert [each.rule for each in pipelines.check_network([network, whole])] == found


def _role(condition: dict[str, Any]) -> Template:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sagemaker.amazonaws.com"},
        "Action": "sts:AssumeRole",
        **condition,
    }
    return template(
        Role={
            "Type": "AWS::IAM::Role",
            "Properties": {"AssumeRolePolicyDocument": {"Statement": [statement]}},
        }
    )


def test_a_role_that_any_account_can_have_assumed_is_found() -> None:
    assert only(list(identities.check(_role({})))) == (identities.TRUST, "Role")
    assert (
        list(
            identities.check(
                _role({"Condition": {"StringEquals": {"aws:SourceAccount": "111122223333"}}})
            )
        )
        == []
    )


@pytest.mark.parametrize(
    "principal", ["*", {"AWS": "*"}, {"AWS": ["arn:aws:iam::111122223333:role/x", "*"]}]
)
def test_a_role_that_anybody_may_assume_is_found(principal: Any) -> None:
    assert only(list(identities.check(_role({"Principal": principal})))) == (
        identities.TRUST,
        "Role",
    )


TO_SAGEMAKER = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
PASSED = "arn:aws:iam::111122223333:role/training"


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ({"Action": "iam:PassRole", "Resource": PASSED, "Condition": TO_SAGEMAKER}, 0),
        (
            {
                "Action": ["iam:PassRole"],
                "Resource": "arn:aws:iam::111122223333:role/*",
                "Condition": TO_SAGEMAKER,
            },
            1,
        ),
        ({"Action": "iam:PassRole", "Resource": PASSED}, 1),
        ({"Action": "iam:*", "Resource": "*"}, 2),
        ({"Action": "s3:GetObject", "Resource": "*"}, 0),
    ],
)
def test_a_role_is_passed_by_its_name_to_one_service(statement: dict[str, Any], count: int) -> None:
    document = {"PolicyDocument": {"Statement": {"Effect": "Allow", **statement}}}
    several = list(
        identities.check(template(Policy={"Type": "AWS::IAM::Policy", "Properties": document}))
    )
    assert [finding.rule for finding in several] == [identities.PASS] * count
    trust: dict[str, Any] = {"AssumeRolePolicyDocument": {"Statement": []}}
    role = {
        "Type": "AWS::IAM::Role",
        "Properties": {**trust, "Policies": [{"PolicyName": "inline", **document}]},
    }
    assert [finding.rule for finding in identities.check(template(Role=role))] == [
        identities.PASS
    ] * count
