"""FSx for Lustre through the API and CloudFormation: what is accepted, what is refused by name, and
what a mounted directory shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account, unique
from shoal_local.errors import AwsError
from shoal_local.server import Emulator
from shoal_local.testing import in_process

LUSTRE_PORTS = ((988, 988), (1018, 1023))
ACCOUNT_ID = "123456789012"
"""moto's own, which an emulator inside this process has."""
SCRATCH = {"DeploymentType": "SCRATCH_2"}


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """Start an emulator in this process, because mounting is no part of the API."""
    with in_process(tmp_path_factory.mktemp("fsx"), ACCOUNT_ID) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def account(emulator: Emulator) -> Account:
    return Account.of(emulator)


@pytest.fixture(scope="module")
def network(account: Account) -> dict[str, Any]:
    """Create a VPC with a subnet and two security groups: one that is open for Lustre to itself,
    one that is closed.
    """
    ec2 = account.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24")["Subnet"]["SubnetId"]
    groups = [
        ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)["GroupId"]
        for name in ("lustre", "closed")
    ]
    for first, last in LUSTRE_PORTS:
        ec2.authorize_security_group_ingress(
            GroupId=groups[0],
            IpPermissions=[
                {
                    "IpProtocol": "tcp",
                    "FromPort": first,
                    "ToPort": last,
                    "UserIdGroupPairs": [{"GroupId": groups[0]}],
                }
            ],
        )
    return {"vpc": vpc, "subnet": subnet, "open": groups[0], "closed": groups[1]}


@pytest.fixture(scope="module")
def bucket(account: Account) -> str:
    name = unique("fsx-data")
    account.client("s3").create_bucket(Bucket=name)
    for key, body in {
        "datasets/mnist/train/one": b"1",
        "datasets/mnist/test/two": b"2",
        "elsewhere/three": b"3",
    }.items():
        account.client("s3").put_object(Bucket=name, Key=key, Body=body)
    return name


def request(network: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a valid CreateFileSystem request with `changes`."""
    return {
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "StorageCapacity": 1200,
        "SubnetIds": [network["subnet"]],
        "SecurityGroupIds": [network["open"]],
        "LustreConfiguration": SCRATCH,
    } | changes


def resources(
    network: dict[str, Any], bucket: str, events: tuple[str, ...] = (), **association: Any
) -> dict[str, Any]:
    """Return a file system and an association for a template."""
    properties = {
        "FileSystemId": {"Ref": "FileSystem"},
        "FileSystemPath": "/datasets",
        "DataRepositoryPath": f"s3://{bucket}/datasets",
        "BatchImportMetaDataOnCreate": True,
        "S3": {"AutoImportPolicy": {"Events": list(events)}},
    }
    return {
        "FileSystem": {"Type": "AWS::FSx::FileSystem", "Properties": request(network)},
        "Association": {
            "Type": "AWS::FSx::DataRepositoryAssociation",
            "Properties": properties | association,
        },
    }


OUTPUTS = {
    "Id": {"Value": {"Ref": "FileSystem"}},
    "MountName": {"Value": {"Fn::GetAtt": ["FileSystem", "LustreMountName"]}},
    "AssociationId": {"Value": {"Fn::GetAtt": ["Association", "AssociationId"]}},
}


@contextmanager
def deployed(account: Account, template: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the outputs of a stack and its name; the stack is deleted at the end."""
    name = unique("stack")
    stack = account.stack(template, name, Outputs=OUTPUTS)
    assert stack["StackStatus"] == "CREATE_COMPLETE", account.failures(name)
    yield {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]} | {
        "Stack": name
    }
    account.client("cloudformation").delete_stack(StackName=name)
    account.settled(stack["StackId"])


def mounted(
    emulator: Emulator, network: dict[str, Any], outputs: dict[str, str], path: str
) -> Path:
    return emulator.home.fsx.mount(
        outputs["Id"], f"/{outputs['MountName']}{path}", [network["subnet"]], [network["open"]]
    )


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_mounted_directory_shows_the_associations_prefix(
    emulator: Emulator, account: Account, network: dict[str, Any], bucket: str
) -> None:
    with deployed(account, resources(network, bucket)) as outputs:
        assert files(mounted(emulator, network, outputs, "/datasets/mnist/train")) == {"one"}
        assert files(mounted(emulator, network, outputs, "/datasets/mnist")) == {
            "train/one",
            "test/two",
        }


def test_content_is_fetched_when_it_is_mounted_and_not_before(
    emulator: Emulator, account: Account, network: dict[str, Any], bucket: str
) -> None:
    with deployed(account, resources(network, bucket)) as outputs:
        folder = account.state_dir / "fsx" / outputs["Id"]
        before = files(folder)
        mounted(emulator, network, outputs, "/datasets/mnist/test")
        assert (before, files(folder)) == (set(), {"datasets/mnist/test/two"})


def test_what_changes_in_the_bucket_shows_where_the_import_policy_names_it(
    emulator: Emulator, account: Account, network: dict[str, Any], bucket: str
) -> None:
    s3, prefix = account.client("s3"), "datasets/changing/"
    s3.put_object(Bucket=bucket, Key=f"{prefix}old", Body=b"before")
    s3.put_object(Bucket=bucket, Key=f"{prefix}goes", Body=b"")
    with deployed(account, resources(network, bucket, ("NEW", "CHANGED", "DELETED"))) as outputs:
        mounted(emulator, network, outputs, "/datasets/changing")
        s3.put_object(Bucket=bucket, Key=f"{prefix}old", Body=b"after")
        s3.put_object(Bucket=bucket, Key=f"{prefix}new", Body=b"")
        s3.delete_object(Bucket=bucket, Key=f"{prefix}goes")
        folder = mounted(emulator, network, outputs, "/datasets/changing")
        assert (files(folder), (folder / "old").read_bytes()) == ({"old", "new"}, b"after")


def test_an_object_that_is_named_like_a_folder_of_others_is_left_out(
    emulator: Emulator, account: Account, network: dict[str, Any], bucket: str
) -> None:
    for key in ("datasets/clash/one", "datasets/clash/one/two"):
        account.client("s3").put_object(Bucket=bucket, Key=key, Body=b"")
    with deployed(account, resources(network, bucket)) as outputs:
        assert files(mounted(emulator, network, outputs, "/datasets/clash")) == {"one/two"}


def test_what_changes_in_the_bucket_stays_unseen_without_an_import_policy(
    emulator: Emulator, account: Account, network: dict[str, Any], bucket: str
) -> None:
    with deployed(account, resources(network, bucket)) as outputs:
        account.client("s3").put_object(Bucket=bucket, Key="datasets/late/new", Body=b"")
        with pytest.raises(AwsError, match="no such directory"):
            mounted(emulator, network, outputs, "/datasets/late")


def test_without_the_import_at_its_creation_an_association_shows_nothing_that_was_there(
    emulator: Emulator, account: Account, network: dict[str, Any], bucket: str
) -> None:
    with deployed(
        account, resources(network, bucket, BatchImportMetaDataOnCreate=False)
    ) as outputs:
        assert files(mounted(emulator, network, outputs, "/datasets")) == set()


def test_the_bucket_is_read_with_the_file_systems_own_role(
    emulator: Emulator, account: Account, network: dict[str, Any], bucket: str
) -> None:
    with deployed(account, resources(network, bucket)) as outputs:
        mounted(emulator, network, outputs, "/datasets/mnist/train")
        callers = {
            each["caller"]
            for each in account.requests("GetObject")
            if outputs["Id"] in each["caller"]
        }
    assert callers == {
        f"arn:aws:sts::{ACCOUNT_ID}:assumed-role/AWSServiceRoleForFSxS3Access_{outputs['Id']}/FSx"
    }


def test_a_deleted_stack_leaves_no_file_system_no_folder_and_no_role(
    account: Account, network: dict[str, Any], bucket: str, emulator: Emulator
) -> None:
    with deployed(account, resources(network, bucket)) as outputs:
        mounted(emulator, network, outputs, "/datasets")
    assert not (account.state_dir / "fsx" / outputs["Id"]).exists()
    assert account.client("fsx").describe_file_systems()["FileSystems"] == []
    assert outputs["Id"] not in str(account.client("iam").list_roles()["Roles"])


@pytest.mark.parametrize(
    ("directory", "reason"),
    [
        ("/datasets", "does not start with the file system's mount name"),
        ("/{MountName}/none", "there is no such directory"),
    ],
)
def test_a_directory_that_is_not_there_cannot_be_mounted(
    emulator: Emulator,
    account: Account,
    network: dict[str, Any],
    bucket: str,
    directory: str,
    reason: str,
) -> None:
    with (
        deployed(account, resources(network, bucket)) as outputs,
        pytest.raises(AwsError, match=reason),
    ):
        emulator.home.fsx.mount(
            outputs["Id"], directory.format(**outputs), [network["subnet"]], [network["open"]]
        )


def test_a_host_whose_security_group_does_not_let_lustre_through_cannot_mount(
    emulator: Emulator, account: Account, network: dict[str, Any], bucket: str
) -> None:
    with (
        deployed(account, resources(network, bucket)) as outputs,
        pytest.raises(AwsError, match="lets TCP 988 in from the client"),
    ):
        emulator.home.fsx.mount(
            outputs["Id"], f"/{outputs['MountName']}/", [network["subnet"]], [network["closed"]]
        )


def test_an_update_grows_the_file_system_in_place(
    account: Account, network: dict[str, Any], bucket: str
) -> None:
    template = resources(network, bucket)
    with deployed(account, template) as outputs:
        grown = {
            **template,
            "FileSystem": {
                "Type": "AWS::FSx::FileSystem",
                "Properties": request(network, StorageCapacity=2400),
            },
        }
        account.update(outputs["Stack"], grown, Outputs=OUTPUTS)
        (file_system,) = account.client("fsx").describe_file_systems(FileSystemIds=[outputs["Id"]])[
            "FileSystems"
        ]
    assert file_system["StorageCapacity"] == 2400


def test_an_update_of_the_import_policy_keeps_the_association(
    account: Account, network: dict[str, Any], bucket: str
) -> None:
    with deployed(account, resources(network, bucket)) as outputs:
        account.update(outputs["Stack"], resources(network, bucket, ("NEW",)), Outputs=OUTPUTS)
        associations = account.client("fsx").describe_data_repository_associations(
            AssociationIds=[outputs["AssociationId"]]
        )["Associations"][0]
    assert associations["S3"]["AutoImportPolicy"] == {"Events": ["NEW"]}


def test_an_association_with_a_bucket_that_is_not_there_fails_its_stack(
    account: Account, network: dict[str, Any]
) -> None:
    name = unique("stack")
    assert (
        account.stack(resources(network, "no-such-bucket-of-anyone"), name)["StackStatus"]
        == "ROLLBACK_COMPLETE"
    )
    assert "MISCONFIGURED" in account.failures(name)["Association"]


PERSISTENT = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125}
REFUSED = {
    "StorageCapacity 3600 is not valid": {"StorageCapacity": 3600},
    "PerUnitStorageThroughput 300 is not valid": {
        "LustreConfiguration": PERSISTENT | {"PerUnitStorageThroughput": 300}
    },
    "PerUnitStorageThroughput None is not valid": {
        "LustreConfiguration": {"DeploymentType": "PERSISTENT_2"}
    },
    "PerUnitStorageThroughput is for PERSISTENT": {
        "LustreConfiguration": SCRATCH | {"PerUnitStorageThroughput": 125}
    },
    "FileSystemTypeVersion 2.14 is not one of": {"FileSystemTypeVersion": "2.14"},
    "FileSystemTypeVersion 2.10 is not one of": {
        "FileSystemTypeVersion": "2.10",
        "LustreConfiguration": PERSISTENT,
    },
    "KmsKeyId is for PERSISTENT_1 and PERSISTENT_2 only": {"KmsKeyId": "alias/any"},
    "does not emulate FileSystemType ONTAP": {"FileSystemType": "ONTAP"},
    "does not emulate StorageType INTELLIGENT_TIERING": {"StorageType": "INTELLIGENT_TIERING"},
    "does not emulate LustreConfiguration.ImportPath": {
        "LustreConfiguration": SCRATCH | {"ImportPath": "s3://bucket"}
    },
    "exactly one subnet": {"SubnetIds": ["subnet-00000001", "subnet-00000002"]},
    "subnet-00000001": {"SubnetIds": ["subnet-00000001"]},
}


@pytest.mark.parametrize(("reason", "change"), REFUSED.items())
def test_what_fsx_refuses_or_the_emulator_lacks_is_refused_by_name(
    account: Account, network: dict[str, Any], reason: str, change: dict[str, Any]
) -> None:
    with pytest.raises(ClientError, match=reason):
        account.client("fsx").create_file_system(**request(network, **change))


def test_a_persistent_file_system_has_the_throughput_and_key_it_was_made_with(
    account: Account, network: dict[str, Any]
) -> None:
    fsx, key = account.client("fsx"), account.client("kms").create_key()["KeyMetadata"]["Arn"]
    file_system_id = fsx.create_file_system(
        **request(network, LustreConfiguration=PERSISTENT, KmsKeyId=key)
    )["FileSystem"]["FileSystemId"]
    (file_system,) = fsx.describe_file_systems(FileSystemIds=[file_system_id])["FileSystems"]
    assert (
        file_system["KmsKeyId"],
        file_system["LustreConfiguration"]["PerUnitStorageThroughput"],
    ) == (
        key,
        125,
    )
    fsx.delete_file_system(FileSystemId=file_system_id)


def test_tags_are_those_that_were_put_and_not_taken_away(
    account: Account, network: dict[str, Any]
) -> None:
    fsx = account.client("fsx")
    file_system = fsx.create_file_system(**request(network), Tags=[{"Key": "a", "Value": "1"}])[
        "FileSystem"
    ]
    fsx.tag_resource(ResourceARN=file_system["ResourceARN"], Tags=[{"Key": "b", "Value": "2"}])
    fsx.untag_resource(ResourceARN=file_system["ResourceARN"], TagKeys=["a"])
    assert fsx.list_tags_for_resource(ResourceARN=file_system["ResourceARN"])["Tags"] == [
        {"Key": "b", "Value": "2"}
    ]
    fsx.delete_file_system(FileSystemId=file_system["FileSystemId"])


def test_security_groups_that_keep_lustre_out_are_refused(
    account: Account, network: dict[str, Any]
) -> None:
    with pytest.raises(
        ClientError, match=r"InvalidNetworkSettings.*do not permit Lustre LNET network traffic"
    ):
        account.client("fsx").create_file_system(
            **request(network, SecurityGroupIds=[network["closed"]])
        )


def test_a_property_that_is_not_emulated_fails_the_stack_by_name(
    account: Account, network: dict[str, Any]
) -> None:
    name = unique("stack")
    efa = {
        "Type": "AWS::FSx::FileSystem",
        "Properties": request(network, LustreConfiguration=PERSISTENT | {"EfaEnabled": True}),
    }
    account.stack({"FileSystem": efa}, name)
    assert (
        "the property LustreConfiguration.EfaEnabled of AWS::FSx::FileSystem"
        in account.failures(name)["FileSystem"]
    )


def test_lustre_2_10_has_no_associations(
    account: Account, network: dict[str, Any], bucket: str
) -> None:
    fsx = account.client("fsx")
    file_system_id = fsx.create_file_system(**request(network, FileSystemTypeVersion="2.10"))[
        "FileSystem"
    ]["FileSystemId"]
    with pytest.raises(ClientError, match="UnsupportedOperation"):
        fsx.create_data_repository_association(
            FileSystemId=file_system_id, FileSystemPath="/x", DataRepositoryPath=f"s3://{bucket}/x"
        )
    fsx.delete_file_system(FileSystemId=file_system_id)


def test_associations_do_not_overlap(
    account: Account, network: dict[str, Any], bucket: str
) -> None:
    fsx = account.client("fsx")
    file_system_id = fsx.create_file_system(**request(network))["FileSystem"]["FileSystemId"]
    fsx.create_data_repository_association(
        FileSystemId=file_system_id, FileSystemPath="/ns1/", DataRepositoryPath=f"s3://{bucket}/x"
    )
    with pytest.raises(ClientError, match="/ns1/ns2/ overlaps with /ns1/"):
        fsx.create_data_repository_association(
            FileSystemId=file_system_id,
            FileSystemPath="/ns1/ns2",
            DataRepositoryPath=f"s3://{bucket}/y",
        )
    fsx.delete_file_system(FileSystemId=file_system_id)
