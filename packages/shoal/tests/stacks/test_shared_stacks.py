"""What all workloads share: network, data, key and file system, as far as it is no row of
templates.yaml.
"""

import fnmatch
from typing import Any

import pytest

from shoal.constructs.template_rules import as_list
from shoal.settings.loading.loader import environment_names, load_environment
from tests.repository import ROOT
from tests.stacks.conftest import StageOf, TemplateOf
from tests.stacks.reading import Template, definition, only, properties, resources


def test_every_private_subnet_reaches_the_internet_through_the_nat_gateway_only(
    template_of: TemplateOf,
) -> None:
    routes = properties(template_of("connected", "network"), "AWS::EC2::Route")
    assert sum("NatGatewayId" in route for route in routes) == 3
    assert sum("GatewayId" in route for route in routes) == 1


def test_interface_endpoints_serve_only_our_own_instances(template_of: TemplateOf) -> None:
    ingress = [
        (rule["FromPort"], rule["ToPort"], "SourceSecurityGroupId" in rule)
        for rule in properties(
            template_of("connected", "network"), "AWS::EC2::SecurityGroupIngress"
        )
        if rule["IpProtocol"] == "tcp"
    ]
    assert ingress == [(443, 443, True)] * 2


def test_subnets_lie_in_the_zones_of_the_settings(template_of: TemplateOf) -> None:
    subnets = properties(template_of("dev", "network"), "AWS::EC2::Subnet")
    zones = [subnet["AvailabilityZoneId"] for subnet in subnets]
    assert zones == ["use1-az4", "use1-az1", "use1-az2"]
    services = properties(template_of("connected", "network"), "AWS::EC2::VPCEndpoint")
    assert len(services) == 4  # S3 and the three that are named


def test_nobody_is_allowed_into_a_bucket_by_its_policy_but_the_log_service(data: Template) -> None:
    allowed = [
        entry
        for policy in properties(data, "AWS::S3::BucketPolicy")
        for entry in policy["PolicyDocument"]["Statement"]
        if entry["Effect"] == "Allow"
    ]
    assert allowed
    for entry in allowed:
        assert entry["Principal"] == {"Service": "logging.s3.amazonaws.com"}
        assert entry["Condition"]["StringEquals"] == {"aws:SourceAccount": "111122223333"}


def test_every_environment_but_dev_is_protected() -> None:
    names = environment_names(ROOT)
    assert [name for name in names if not load_environment(name, ROOT).protect] == ["dev"]


@pytest.mark.parametrize(("name", "protected"), [("dev", False), ("prod", True)])
def test_stacks_of_a_protected_environment_are_protected_from_deletion(
    stage_of: StageOf, name: str, protected: bool
) -> None:
    stage = stage_of(name)
    stacks = (stage.network, stage.data, stage.workloads[0].pipeline)
    assert [stack.termination_protection for stack in stacks] == [protected] * 3


def test_every_bucket_of_a_throw_away_environment_is_emptied_before_it_goes(data: Template) -> None:
    emptied = {
        entry["Properties"]["BucketName"]["Ref"]: entry["DependsOn"]
        for entry in resources(data, "Custom::EmptyBucket").values()
    }
    assert emptied.keys() == resources(data, "AWS::S3::Bucket").keys()
    assert all(bucket in depends_on for bucket, depends_on in emptied.items())


ACCOUNT_ROOT = {"AWS": "arn:aws:iam::111122223333:root"}
USES = (
    *("Decrypt", "Encrypt", "GenerateDataKey", "GenerateDataKeyWithoutPlaintext"),
    *("ReEncryptFrom", "ReEncryptTo", "CreateGrant", "Sign"),
)
BUCKET_OBJECTS = [
    f"arn:aws:s3:::shoal-mnist-told-{purpose}-111122223333-us-east-1{objects}"
    for purpose in ("data", "artifacts")
    for objects in ("", "/*")
]
Policies = dict[str, dict[str, dict[str, Any]]]
FILE_SYSTEMS = ("told", "lustre", "persistent")
"""Environments of templates.yaml: without one, with one to scratch, and with one that stays."""


@pytest.fixture(scope="module")
def policies(template_of: TemplateOf) -> Policies:
    """The statements of keys by Sid, without a file system, and with one of each kind."""
    keys = {name: only(template_of(name, "data"), "AWS::KMS::Key") for name in FILE_SYSTEMS}
    return {
        name: {statement["Sid"]: statement for statement in key["KeyPolicy"]["Statement"]}
        for name, key in keys.items()
    }


def _statements(policies: Policies) -> list[dict[str, Any]]:
    return [statement for policy in policies.values() for statement in policy.values()]


def test_the_key_itself_names_this_account_and_services_for_it_only_and_nobody_has_every_action(
    policies: Policies,
) -> None:
    for statement in _statements(policies):
        is_limited = statement["Principal"].keys() <= {"Service"} and "111122223333" in str(
            statement["Condition"]
        )
        is_for_fsx = statement["Sid"] == "FileSystemsThroughS3"
        assert statement["Principal"] == ACCOUNT_ROOT or is_limited or is_for_fsx
        assert not {"*", "kms:*"} & {*as_list(statement["Action"])}


@pytest.mark.parametrize("use", USES)
def test_administration_does_not_use_the_key(policies: Policies, use: str) -> None:
    granted = policies["told"]["AdministerKey"]["Action"]
    assert not any(fnmatch.fnmatch(f"kms:{use}", action) for action in granted)


def test_the_account_can_always_change_the_policy_or_the_key_would_be_lost(
    policies: Policies,
) -> None:
    statement = policies["told"]["AdministerKey"]
    assert (statement["Principal"], "Condition" in statement) == (ACCOUNT_ROOT, False)
    assert {"kms:PutKeyPolicy", "kms:ScheduleKeyDeletion", "kms:DescribeKey"} <= set(
        statement["Action"]
    )


def test_the_key_decrypts_through_s3_and_for_our_buckets_only(policies: Policies) -> None:
    decrypting = {
        sid: entry
        for sid, entry in policies["told"].items()
        if "kms:Decrypt" in as_list(entry["Action"]) and entry["Principal"] == ACCOUNT_ROOT
    }
    assert decrypting.keys() == {"ReadAndWriteBuckets"}
    assert decrypting["ReadAndWriteBuckets"]["Condition"] == {
        "StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"},
        "StringLike": {"kms:EncryptionContext:aws:s3:arn": BUCKET_OBJECTS},
    }


def test_grants_are_for_aws_services_only(policies: Policies) -> None:
    conditions = [
        entry["Condition"]
        for entry in _statements(policies)
        if "kms:CreateGrant" in as_list(entry["Action"])
    ]
    assert conditions == [{"Bool": {"kms:GrantIsForAWSResource": "true"}}] * len(policies)


def test_only_a_persistent_file_system_is_encrypted_with_the_key(policies: Policies) -> None:
    assert [name for name, policy in policies.items() if "EncryptFileSystem" in policy] == [
        "persistent"
    ]
    condition = policies["persistent"]["EncryptFileSystem"]["Condition"]
    assert condition == {"StringEquals": {"kms:ViaService": "fsx.us-east-1.amazonaws.com"}}


@pytest.mark.parametrize(
    ("direction", "peer"),
    [("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")],
)
def test_lustres_ports_are_open_between_servers_and_training_nodes_in_both_directions(
    template_of: TemplateOf, direction: str, peer: str
) -> None:
    rules = properties(template_of("lustre", "file-system"), f"AWS::EC2::SecurityGroup{direction}")
    ends = {
        (_end(rule["GroupId"]), _end(rule[peer]), rule["FromPort"], rule["ToPort"])
        for rule in rules
    }
    pairs = [("servers", "servers"), ("servers", "clients"), ("clients", "servers")]
    assert ends == {(*pair, *ports) for pair in pairs for ports in ((988, 988), (1018, 1023))}


def _end(group: dict[str, Any]) -> str:
    return "clients" if "Fn::ImportValue" in group else "servers"


def test_it_is_made_after_its_security_groups_rules_without_which_fsx_refuses_it(
    template_of: TemplateOf,
) -> None:
    file_system = template_of("lustre", "file-system")
    rules = {
        key
        for kind in ("Ingress", "Egress")
        for key in resources(file_system, f"AWS::EC2::SecurityGroup{kind}")
    }
    (resource,) = resources(file_system, "AWS::FSx::FileSystem").values()
    assert rules
    assert rules <= set(resource["DependsOn"])


def test_the_pipeline_reads_its_id_from_a_parameter_so_that_it_can_be_replaced(
    template_of: TemplateOf,
) -> None:
    template = template_of("lustre", "pipeline")
    parameters = template["Parameters"]
    assert parameters["FileSystemId"]["Default"] == "/shoal/shoal-mnist-lustre/file-system/id"
    train, *_ = definition(template)["Steps"]
    (source,) = {
        channel["DataSource"]["FileSystemDataSource"]["FileSystemId"]
        for channel in train["Arguments"]["InputDataConfig"]
    }
    assert "FileSystemId" in source


def test_without_the_section_there_is_no_such_stack(stage_of: StageOf) -> None:
    assert [stage_of(name).file_system for name in ("dev", "prod")] == [None, None]
