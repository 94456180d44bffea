"""FSx for Lustre through the API and CloudFormation: what is accepted, what is refused by name, and
what a mounted directory shows.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account, outputs, resource, template, unique
from local_kit.networks import IMPORT_ALL, association, file_system, new_vpc
from local_kit.tables import rows
from shoal_local.errors import AwsError
from shoal_local.server import Emulator
from shoal_local.testing import in_process

ACCOUNT_ID = "123456789012"
"""moto's own, which an emulator inside this process has."""
OBJECTS = {
    "datasets/mnist/train/one": b"1",
    "datasets/mnist/test/two": b"2",
    "datasets/clash/one": b"",
    "datasets/clash/one/two": b"",
    "elsewhere/three": b"3",
}
ASSOCIATION = association("/y", "s3://bucket/y")
OUTPUTS = {
    "Id": {"Value": {"Ref": "FileSystem"}},
    "MountName": {"Value": {"Fn::GetAtt": ["FileSystem", "LustreMountName"]}},
    "AssociationId": {"Value": {"Fn::GetAtt": ["Association", "AssociationId"]}},
}


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
    """Create a VPC with a subnet and a security group."""
    _, subnet, groups = new_vpc(account.client("ec2"), "own")
    return {"subnet": subnet, **groups}


def request(network: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a valid CreateFileSystem request with `changes`."""
    return file_system(network["subnet"], network["own"], **changes)


class Deployed:
    """A stack of a file system and an association with a bucket of its own."""

    def __init__(self, emulator: Emulator, network: dict[str, Any]) -> None:
        self.account, self.name, self.bucket = Account.of(emulator), unique("stack"), unique("fsx")
        self._emulator, self._network = emulator, network
        self.account.client("s3").create_bucket(Bucket=self.bucket)
        self.put(OBJECTS)
        self.stack = self.account.stack(self.resources(), self.name, Outputs=OUTPUTS)
        assert self.stack["StackStatus"] == "CREATE_COMPLETE", self.account.failures(self.name)
        names = outputs(self.stack)
        self.id, self.mount_name = names["Id"], names["MountName"]
        self.association_id = names["AssociationId"]
        self.folder = self.account.state_dir / "fsx" / self.id

    def resources(self, s3: Any = IMPORT_ALL, **file_system: Any) -> dict[str, Any]:
        """Return a file system and an association for a template."""
        imports = association("/datasets", f"s3://{self.bucket}/datasets", S3=s3)
        imports["FileSystemId"] = {"Ref": "FileSystem"}
        return {
            "FileSystem": resource("FSx::FileSystem", **request(self._network, **file_system)),
            "Association": resource("FSx::DataRepositoryAssociation", **imports),
        }

    def put(self, objects: Mapping[str, bytes]) -> None:
        for key, body in objects.items():
            self.account.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body)

    def mount(self, path: str) -> Path:
        """Mount a path of all that the emulator's file systems have."""
        return self._emulator.home.fsx.mount(self.id, path, [self._network["subnet"]])

    def files(self, path: str) -> set[str]:
        """Return the files of a directory of the file system once it is mounted."""
        return files(self.mount(f"/{self.mount_name}{path}"))


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def deployed(emulator: Emulator, network: dict[str, Any]) -> Deployed:
    return Deployed(emulator, network)


def test_content_is_fetched_when_its_directory_is_mounted(deployed: Deployed) -> None:
    before = files(deployed.folder)
    assert deployed.files("/datasets/mnist/train") == {"one"}
    assert (before, files(deployed.folder)) == (set(), {"datasets/mnist/train/one"})
    assert deployed.files("/datasets/mnist") == {"train/one", "test/two"}


def test_what_changes_in_the_bucket_shows_at_the_next_mount(deployed: Deployed) -> None:
    prefix = "datasets/changing/"
    deployed.put({f"{prefix}old": b"before", f"{prefix}goes": b""})
    assert deployed.files("/datasets/changing") == {"old", "goes"}
    deployed.put({f"{prefix}old": b"after", f"{prefix}new": b""})
    deployed.account.client("s3").delete_object(Bucket=deployed.bucket, Key=f"{prefix}goes")
    assert deployed.files("/datasets/changing") == {"old", "new"}
    assert (deployed.folder / prefix / "old").read_bytes() == b"after"


def test_an_object_that_is_named_like_a_folder_is_left_out(deployed: Deployed) -> None:
    assert deployed.files("/datasets/clash") == {"one/two"}


def test_the_bucket_is_read_with_the_file_systems_own_role(deployed: Deployed) -> None:
    deployed.put({"datasets/own/role": b""})
    deployed.files("/datasets/own")
    callers = {each["caller"] for each in deployed.account.requests("GetObject")}
    role = f"AWSServiceRoleForFSxS3Access_{deployed.id}"
    assert callers == {f"arn:aws:sts::{ACCOUNT_ID}:assumed-role/{role}/FSx"}


@pytest.mark.parametrize(
    ("directory", "reason"),
    [
        ("/datasets", "does not start with the file system's mount name"),
        ("/{0}/none", "there is no such directory"),
        ("/{0}/datasets/../..", "has \\.\\."),
    ],
)
def test_a_directory_that_cannot_be_mounted(
    deployed: Deployed, directory: str, reason: str
) -> None:
    with pytest.raises(AwsError, match=reason):
        deployed.mount(directory.format(deployed.mount_name))


def test_a_stack_changes_its_file_system_in_place_and_leaves_nothing(
    emulator: Emulator, network: dict[str, Any]
) -> None:
    """Neither a file system nor a folder nor a role."""
    own = Deployed(emulator, network)
    own.files("/datasets")
    fsx, policy = own.account.client("fsx"), IMPORT_ALL | {"AutoExportPolicy": {"Events": ["NEW"]}}
    changed = own.resources(
        policy,
        StorageCapacity="2400",
        LustreConfiguration={"DeploymentType": "SCRATCH_2", "DataCompressionType": "LZ4"},
        Tags=[{"Key": "team", "Value": "a"}],
    )
    assert own.account.update(own.name, changed)["StackStatus"] == "UPDATE_COMPLETE"
    (after,) = fsx.describe_file_systems(FileSystemIds=[own.id])["FileSystems"]
    compression = after["LustreConfiguration"]["DataCompressionType"]
    assert (after["StorageCapacity"], compression) == (2400, "LZ4")
    answer = fsx.describe_data_repository_associations(AssociationIds=[own.association_id])
    assert [each["S3"] for each in answer["Associations"]] == [policy]
    arn = after["ResourceARN"]
    assert fsx.list_tags_for_resource(ResourceARN=arn)["Tags"] == [{"Key": "team", "Value": "a"}]
    fsx.untag_resource(ResourceARN=arn, TagKeys=["team"])
    assert "Tags" not in fsx.list_tags_for_resource(ResourceARN=arn)
    assert own.account.deleted(own.stack) == "DELETE_COMPLETE"
    ids = [each["FileSystemId"] for each in fsx.describe_file_systems()["FileSystems"]]
    assert (own.id in ids, own.folder.exists()) == (False, False)
    assert own.id not in str(own.account.client("iam").list_roles()["Roles"])


def test_another_deployment_type_makes_another_file_system(deployed: Deployed) -> None:
    persistent = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125}
    body = template(deployed.resources(LustreConfiguration=persistent))
    changes = deployed.account.changes(deployed.name, body)
    replaced = {each["LogicalResourceId"]: each["Replacement"] for each in changes}
    assert replaced["FileSystem"] == "True"


def test_an_association_with_a_bucket_that_is_not_there_fails_its_stack(
    account: Account, deployed: Deployed
) -> None:
    name, resources = unique("stack"), deployed.resources()
    resources["Association"]["Properties"]["DataRepositoryPath"] = "s3://no-such-bucket/x"
    assert account.stack(resources, name)["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "MISCONFIGURED" in account.failures(name)["Association"]


@pytest.mark.parametrize(("reason", "change"), rows(__file__, "cases.yaml", "fsx_file_systems"))
def test_a_file_system_is_refused_with_the_reason(
    account: Account, network: dict[str, Any], reason: str, change: dict[str, Any]
) -> None:
    with pytest.raises(ClientError, match=reason):
        account.client("fsx").create_file_system(**request(network, **change))


@pytest.mark.parametrize(("reason", "change"), rows(__file__, "cases.yaml", "fsx_associations"))
def test_an_association_is_refused_with_the_reason(
    account: Account, network: dict[str, Any], reason: str, change: dict[str, Any]
) -> None:
    fsx = account.client("fsx")
    made = fsx.create_file_system(**request(network))
    named = {"FileSystemId": made["FileSystem"]["FileSystemId"]}
    with pytest.raises(ClientError, match=reason):
        fsx.create_data_repository_association(**named | ASSOCIATION | change)
    fsx.delete_file_system(**named)


@pytest.mark.parametrize(
    ("operation", "arguments", "reason"),
    [
        ("update_file_system", {"StorageCapacity": 600}, "can only grow; it is 1200 GiB"),
        ("update_file_system", {"StorageType": "HDD"}, "another StorageType"),
        ("create_data_repository_association", ASSOCIATION, "a second data repository associatio"),
    ],
)
def test_a_change_is_refused_with_the_reason(
    deployed: Deployed, operation: str, arguments: dict[str, Any], reason: str
) -> None:
    act = getattr(deployed.account.client("fsx"), operation)
    with pytest.raises(ClientError, match=reason):
        act(FileSystemId=deployed.id, **arguments)
