"""The FSx for Lustre file system: what AWS accepts only in certain combinations, its ports, and
that it goes without a trace.
"""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk.assertions import Template

from stacks.platform import EnvironmentStage
from tests.stacks.conftest import MakeVariant
from tests.stacks.reading import definition, only, properties, resources

PERSISTENT = {
    "deployment_type": "PERSISTENT_2",
    "throughput_mbps_per_tib": 250,
    "storage_capacity_gib": 2400,
    "export_changes": True,
}


@pytest.fixture(scope="module")
def mounted(make_variant: MakeVariant) -> EnvironmentStage:
    """dev with a scratch file system."""
    return make_variant("lustre", data={"input_mode": "FSx"}, file_system={})


@pytest.fixture(scope="module")
def file_system(mounted: EnvironmentStage) -> Template:
    return _template(mounted)


@pytest.fixture(scope="module")
def persistent(make_variant: MakeVariant) -> Template:
    stage = make_variant("lustre", data={"input_mode": "FSx"}, file_system=PERSISTENT)
    return _template(stage)


def _template(stage: EnvironmentStage) -> Template:
    assert stage.file_system is not None
    return Template.from_stack(stage.file_system)


def test_a_scratch_file_system_has_lustre_2_15_and_no_throughput_or_key_of_its_own(
    file_system: Template,
) -> None:
    resource = only(file_system, "AWS::FSx::FileSystem")
    assert (resource["FileSystemTypeVersion"], resource["StorageCapacity"]) == ("2.15", 1200)
    assert resource["LustreConfiguration"] == {
        "DeploymentType": "SCRATCH_2",
        "DataCompressionType": "LZ4",
    }
    assert "KmsKeyId" not in resource


def test_a_persistent_file_system_has_the_throughput_asked_for_and_is_encrypted_with_our_key(
    persistent: Template,
) -> None:
    resource = only(persistent, "AWS::FSx::FileSystem")
    assert resource["LustreConfiguration"]["PerUnitStorageThroughput"] == 250
    assert "StorageKey" in resource["KmsKeyId"]["Fn::ImportValue"]


def test_it_stands_in_the_training_subnet(file_system: Template) -> None:
    (subnet,) = only(file_system, "AWS::FSx::FileSystem")["SubnetIds"]
    assert "NetworkTrainingSubnet" in subnet["Fn::ImportValue"]


def test_the_bucket_follows_new_and_changed_files_and_never_deleted_ones_when_the_settings_say_so(
    persistent: Template,
) -> None:
    association = only(persistent, "AWS::FSx::DataRepositoryAssociation")
    assert association["S3"]["AutoExportPolicy"] == {"Events": ["NEW", "CHANGED"]}
    assert association["S3"]["AutoImportPolicy"] == {"Events": ["NEW", "CHANGED", "DELETED"]}


def test_nothing_is_exported_by_default(file_system: Template) -> None:
    assert set(only(file_system, "AWS::FSx::DataRepositoryAssociation")["S3"]) == {
        "AutoImportPolicy"
    }


def test_it_shows_the_datasets_of_the_data_bucket(file_system: Template) -> None:
    association = only(file_system, "AWS::FSx::DataRepositoryAssociation")
    assert (
        association["DataRepositoryPath"]
        == "s3://shoal-mnist-lustre-data-111122223333-us-east-1/datasets/"
    )
    assert (association["FileSystemPath"], association["BatchImportMetaDataOnCreate"]) == (
        "/datasets",
        True,
    )


@pytest.mark.parametrize(
    ("direction", "peer"),
    [("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")],
)
def test_lustres_ports_are_open_between_servers_and_training_nodes_in_both_directions(
    file_system: Template, direction: str, peer: str
) -> None:
    rules = properties(file_system, f"AWS::EC2::SecurityGroup{direction}")
    ends = {
        (_end(rule["GroupId"]), _end(rule[peer]), rule["FromPort"], rule["ToPort"])
        for rule in rules
    }
    pairs = [("servers", "servers"), ("servers", "clients"), ("clients", "servers")]
    assert ends == {(*pair, *ports) for pair in pairs for ports in ((988, 988), (1018, 1023))}


def _end(group: dict[str, Any]) -> str:
    return "clients" if "Fn::ImportValue" in group else "servers"


def test_it_is_made_after_its_security_groups_rules_without_which_fsx_refuses_it(
    file_system: Template,
) -> None:
    rules = {
        key
        for kind in ("Ingress", "Egress")
        for key in resources(file_system, f"AWS::EC2::SecurityGroup{kind}")
    }
    (resource,) = resources(file_system, "AWS::FSx::FileSystem").values()
    assert rules
    assert rules <= set(resource["DependsOn"])


def test_everything_of_it_goes_with_the_stack(file_system: Template, persistent: Template) -> None:
    for template in (file_system, persistent):
        for kind in ("AWS::FSx::FileSystem", "AWS::FSx::DataRepositoryAssociation"):
            (resource,) = resources(template, kind).values()
            assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == (
                "Delete",
                "Delete",
            )


def test_the_role_that_fsx_makes_may_use_the_key_through_s3_for_the_data_bucketonly(
    mounted: EnvironmentStage,
) -> None:
    key = only(Template.from_stack(mounted.data), "AWS::KMS::Key")
    (statement,) = [
        entry
        for entry in key["KeyPolicy"]["Statement"]
        if entry.get("Sid") == "FileSystemsThroughS3"
    ]
    conditions = statement["Condition"]
    assert conditions["ArnLike"]["aws:PrincipalArn"].endswith(
        "lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_fs-*"
    )
    assert conditions["StringEquals"] == {
        "kms:CallerAccount": "111122223333",
        "kms:ViaService": "s3.us-east-1.amazonaws.com",
    }
    assert (
        conditions["StringLike"]["kms:EncryptionContext:aws:s3:arn"][0]
        == "arn:aws:s3:::shoal-mnist-lustre-data-111122223333-us-east-1"
    )


def test_the_pipeline_reads_id_and_mount_name_from_parameters_so_that_the_file_system_can_be_replaced(  # noqa: E501
    mounted: EnvironmentStage,
) -> None:
    template = Template.from_stack(mounted.workloads[0].pipeline)
    parameters = template.to_json()["Parameters"]
    assert parameters["FileSystemId"]["Default"] == "/shoal/shoal-mnist-lustre/file-system/id"
    train, *_ = definition(template)["Steps"]
    (source,) = {
        channel["DataSource"]["FileSystemDataSource"]["FileSystemId"]
        for channel in train["Arguments"]["InputDataConfig"]
    }
    assert "FileSystemId" in source


def test_without_the_section_there_is_no_such_stack(stages: dict[str, EnvironmentStage]) -> None:
    assert [stage.file_system for stage in stages.values()] == [None, None]
