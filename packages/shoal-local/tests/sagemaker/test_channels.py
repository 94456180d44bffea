"""Input channels as a script sees them: copied, read-only, or a directory of an FSx file system;
and the reasons why a job has none.
"""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.sagemaker_account import BUCKET, PROGRAMS, TRAINING_IMAGE, Account, archive, channel
from shoal_local.sagemaker.container.launch import isolation_refused

needs_namespaces = pytest.mark.skipif(
    bool(isolation_refused()), reason="read-only channels are mounts, which this machine refuses"
)
LOOK = (
    "cd ${SAGEMAKER_BASE_DIR:-/opt/ml}; (cd input/data/train && find . -type f | sort | tr '\\n' '"
    " ') > model/seen"
)
TRY_TO_WRITE = (
    "cd /opt/ml/input/data/train && (touch new 2>/dev/null && echo written || echo refused) >"
    " /opt/ml/model/seen"
)


def algorithm(script: str, mode: str = "File") -> dict[str, Any]:
    return {
        "TrainingImage": TRAINING_IMAGE,
        "TrainingInputMode": mode,
        "ContainerEntrypoint": ["/bin/bash", "-c", script],
    }


@pytest.fixture(scope="module")
def network(account: Account) -> dict[str, Any]:
    """Where a job and a file system reach each other; and a security group through which they do
    not.
    """
    ec2 = account.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.1.0/24")["Subnet"]["SubnetId"]
    groups = [
        ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)["GroupId"]
        for name in ("fsx", "alone")
    ]
    everything = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": groups[0]}]}]
    ec2.authorize_security_group_ingress(GroupId=groups[0], IpPermissions=everything)
    return {
        "vpc": {"Subnets": [subnet], "SecurityGroupIds": [groups[0]]},
        "alone": {"Subnets": [subnet], "SecurityGroupIds": [groups[1]]},
    }


@pytest.fixture(scope="module")
def source(account: Account, network: dict[str, Any]) -> dict[str, str]:
    """A FileSystemDataSource for the test bucket's prefix data/."""
    fsx, vpc = account.client("fsx"), network["vpc"]
    file_system = fsx.create_file_system(
        FileSystemType="LUSTRE",
        FileSystemTypeVersion="2.15",
        StorageCapacity=1200,
        SubnetIds=vpc["Subnets"],
        SecurityGroupIds=vpc["SecurityGroupIds"],
        LustreConfiguration={"DeploymentType": "SCRATCH_2"},
    )["FileSystem"]
    fsx.create_data_repository_association(
        FileSystemId=file_system["FileSystemId"],
        FileSystemPath="/data",
        DataRepositoryPath=f"s3://{BUCKET}/data",
        BatchImportMetaDataOnCreate=True,
        S3={"AutoImportPolicy": {"Events": ["NEW", "CHANGED", "DELETED"]}},
    )
    return {
        "FileSystemId": file_system["FileSystemId"],
        "FileSystemType": "FSxLustre",
        "FileSystemAccessMode": "ro",
        "DirectoryPath": f"/{file_system['LustreConfiguration']['MountName']}/data/train",
    }


def request(
    account: Account, name: str, source: dict[str, str], network: dict[str, Any], **changes: Any
) -> dict[str, Any]:
    """A training job that writes down what it sees of the file system."""
    channels = [{"ChannelName": "train", "DataSource": {"FileSystemDataSource": source}}]
    return (
        account.training(
            name,
            InputDataConfig=channels,
            VpcConfig=network["vpc"],
            AlgorithmSpecification=algorithm(LOOK),
        )
        | changes
    )


def run(account: Account, request: dict[str, Any]) -> dict[str, Any]:
    account.sagemaker.create_training_job(**request)
    return account.training_ended(request["TrainingJobName"])


def test_a_file_system_channel_shows_the_directory(
    account: Account, source: dict[str, str], network: dict[str, Any]
) -> None:
    job = run(account, request(account, "reads-fsx", source, network))
    assert account.model_files(job) == {"seen": "./deep/two.txt ./one.txt "}


@needs_namespaces
def test_a_file_system_channel_cannot_be_written(
    account: Account, source: dict[str, str], network: dict[str, Any]
) -> None:
    changes = {"AlgorithmSpecification": algorithm(TRY_TO_WRITE)}
    job = run(account, request(account, "writes-fsx", source, network, **changes))
    assert account.model_files(job) == {"seen": "refused\n"}


@pytest.mark.parametrize(
    ("name", "members", "group", "reason"),
    [
        (
            "no-mount-name",
            {"DirectoryPath": "/data/train"},
            "vpc",
            "the path does not start with the file system's mount name",
        ),
        (
            "no-directory",
            {"DirectoryPath": "{DirectoryPath}/none"},
            "vpc",
            "there is no such directory on the file system",
        ),
        (
            "no-file-system",
            {"FileSystemId": "fs-00000000000000000"},
            "vpc",
            "File system 'fs-00000000000000000' does not exist",
        ),
        ("closed-group", {}, "alone", "lets TCP 988 in from the client"),
    ],
)
def test_a_directory_that_cannot_be_mounted_fails_the_job_with_both_names(
    account: Account,
    source: dict[str, str],
    network: dict[str, Any],
    name: str,
    members: dict[str, str],
    group: str,
    reason: str,
) -> None:
    changed = source | {key: value.format(**source) for key, value in members.items()}
    job = run(account, request(account, name, changed, network, VpcConfig=network[group]))
    where = f"{changed['FileSystemId']} directory path: {changed['DirectoryPath']}"
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith(f"ClientError: Unable to mount file system: {where}: ")
    assert reason in job["FailureReason"]


@pytest.mark.parametrize(
    ("reason", "members", "changes"),
    [
        ("VpcConfig", {}, {"VpcConfig": None}),
        ("FastFile", {}, {"AlgorithmSpecification": algorithm(LOOK, "FastFile")}),
        ("file system type EFS", {"FileSystemType": "EFS"}, {}),
        ("FileSystemAccessMode rw", {"FileSystemAccessMode": "rw"}, {}),
    ],
)
def test_what_a_file_system_channel_cannot_be_is_refused_before_anything_starts(
    account: Account,
    source: dict[str, str],
    network: dict[str, Any],
    reason: str,
    members: dict[str, str],
    changes: dict[str, Any],
) -> None:
    refused = request(account, "refused", source | members, network, **changes)
    with pytest.raises(ClientError, match=reason):
        account.sagemaker.create_training_job(
            **{key: value for key, value in refused.items() if value is not None}
        )


@needs_namespaces
@pytest.mark.parametrize(("mode", "result"), [("File", "written\n"), ("FastFile", "refused\n")])
def test_only_a_fast_file_channel_is_read_only(account: Account, mode: str, result: str) -> None:
    channels = [channel(f"s3://{BUCKET}/data/train/")]
    job = account.train(
        f"writes-{mode}",
        InputDataConfig=channels,
        AlgorithmSpecification=algorithm(TRY_TO_WRITE, mode),
    )
    assert account.model_files(job) == {"seen": result}


@pytest.mark.parametrize("name", [".", ".."])
def test_a_channel_name_that_would_lead_out_of_the_inputs_is_refused(
    account: Account, name: str
) -> None:
    refused = account.training("refused", InputDataConfig=[channel(f"s3://{BUCKET}/data/", name)])
    with pytest.raises(ClientError, match="a channel is a folder below /opt/ml/input/data"):
        account.sagemaker.create_training_job(**refused)


@pytest.mark.parametrize(
    ("name", "key", "reason"),
    [
        ("sly", "../../../../escaped", "leads out of its folder"),
        ("folder-and-file", "one/two", "Could not store s3://{uri}"),
        ("long-part", "x" * 300, "Could not store s3://{uri}"),
        ("dot", ".", "Could not store s3://{uri}"),
    ],
)
def test_a_key_that_cannot_be_a_file_of_the_channel_fails_the_job_as_the_users_mistake(
    account: Account, name: str, key: str, reason: str
) -> None:
    account.put(f"{name}/one", b"1")
    account.put(f"{name}/{key}", b"2")
    channels = [channel(f"s3://{BUCKET}/{name}/")]
    job = account.train(name, InputDataConfig=channels, AlgorithmSpecification=algorithm(LOOK))
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("ClientError: Data download failed:")
    assert reason.format(uri=f"{BUCKET}/{name}/{key}") in job["FailureReason"]


def test_a_source_archive_writes_nothing_beside_the_code(account: Account) -> None:
    """AWS's own toolkit unpacks it, in the container: names are made to stay inside, with a warning
    in the log.
    """
    files = {
        "train.py": (PROGRAMS / "train.py").read_bytes(),
        "../../../../../../escaped.txt": b"out",
        "/opt/ml/model/escaped.txt": b"out",
    }
    uri = account.put("code/sly.tar.gz", archive(files))
    job = account.train("sly-code", hyperparameters={"sagemaker_submit_directory": uri})
    places = {path.parent for path in account.state_dir.rglob("escaped.txt")}
    assert "escaped.txt" not in account.model_files(job)
    assert all("code" in place.parts for place in places)
