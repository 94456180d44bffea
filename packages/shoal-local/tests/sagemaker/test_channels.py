"""Input channels as a script sees them: copied, read-only, or a directory of an FSx file system,
the reasons why a job has none, and what a gateway endpoint of its VPC lets through.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import allow, put_policies
from local_kit.hosted import ENVIRONMENT, configure_container, create
from local_kit.networks import association, file_system, needs_namespaces, new_vpc
from local_kit.sagemaker_account import (
    BUCKET,
    INFERENCE_IMAGE,
    PROGRAMS,
    Account,
    algorithm,
    archive,
    channel,
    processing_input,
)
from shoal_local.testing import emulator

LOOK = (
    "cd ${SAGEMAKER_BASE_DIR:-/opt/ml}; (cd input/data/train && find . -type f | sort | tr '\\n' '"
    " ') > model/seen"
)
WRITE = (
    "cd /opt/ml/input/data/train && (touch new 2>/dev/null && echo written || echo refused) >"
    " /opt/ml/model/seen"
)


Data = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def fsx(account: Account) -> Data:
    """Return what makes a job's input from a file system of the test bucket's prefix data/.

    A job is in the file system's VPC (`fsx`), in another one (`alone`), or in none; `members`
    change the source.
    """
    networks = {}
    for name in ("fsx", "alone"):
        _, subnet, groups = new_vpc(account.client("ec2"), name)
        networks[name] = {"Subnets": [subnet], "SecurityGroupIds": [groups[name]]}
    client, (subnet,), (group,) = account.client("fsx"), *networks["fsx"].values()
    made = client.create_file_system(**file_system(subnet, group))["FileSystem"]
    client.create_data_repository_association(
        FileSystemId=made["FileSystemId"], **association("/data", f"s3://{BUCKET}/data")
    )
    source = {
        "FileSystemId": made["FileSystemId"],
        "FileSystemType": "FSxLustre",
        "FileSystemAccessMode": "ro",
        "DirectoryPath": f"/{made['LustreConfiguration']['MountName']}/data/train",
    }

    def data(vpc: str = "fsx", **members: str) -> dict[str, Any]:
        train = {"ChannelName": "train", "DataSource": {"FileSystemDataSource": source | members}}
        network = {"VpcConfig": networks[vpc]} if vpc else {}
        return {"InputDataConfig": [train], **network}

    return data


@pytest.mark.parametrize(
    ("name", "script", "mode", "seen"),
    [
        ("reads-fsx", LOOK, "File", "./deep/two.txt ./one.txt "),
        pytest.param("writes-fsx", WRITE, "File", "refused\n", marks=needs_namespaces),
        pytest.param("writes-file", WRITE, "File", "written\n", marks=needs_namespaces),
        pytest.param("writes-fast-file", WRITE, "FastFile", "refused\n", marks=needs_namespaces),
    ],
)
def test_a_script_sees_its_channel_and_writes_only_to_copies(
    account: Account, fsx: Data, name: str, script: str, mode: str, seen: str
) -> None:
    data: dict[str, Any] = {"InputDataConfig": [channel(f"s3://{BUCKET}/data/train/")]}
    if name.endswith("fsx"):
        data = fsx()
    job = account.train(name, AlgorithmSpecification=algorithm(script, mode), **data)
    assert account.model_files(job) == {"seen": seen}


@pytest.mark.parametrize(
    ("name", "members", "vpc", "reason"),
    [  # tests/control/test_fsx.py has all reasons
        ("no-file-system", {"FileSystemId": "fs-" + 17 * "0"}, "fsx", "00' does not exist"),
        ("another-vpc", {}, "alone", "and the client is not"),
    ],
)
def test_a_directory_that_cannot_be_mounted_fails_the_job_with_both_names(
    account: Account, fsx: Data, name: str, members: dict[str, str], vpc: str, reason: str
) -> None:
    data = fsx(vpc, **members)
    job = account.train(name, **data)
    source = data["InputDataConfig"][0]["DataSource"]["FileSystemDataSource"]
    where = f"{source['FileSystemId']} directory path: {source['DirectoryPath']}"
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith(f"ClientError: Unable to mount file system: {where}: ")
    assert reason in job["FailureReason"]


@pytest.mark.parametrize(
    ("vpc", "members", "reason"),
    [
        ("", {}, "VpcConfig"),
        ("fsx", {"FileSystemType": "EFS"}, "FileSystemType EFS; it has FSxLustre"),
        ("fsx", {"FileSystemAccessMode": "rw"}, "FileSystemAccessMode rw; it has ro"),
    ],
)
def test_what_a_file_system_channel_cannot_be_is_refused_before_anything_starts(
    account: Account, fsx: Data, vpc: str, members: dict[str, str], reason: str
) -> None:
    request = fsx(vpc, **members) | {"AlgorithmSpecification": algorithm(LOOK, "File")}
    with pytest.raises(ClientError, match=reason):
        account.train("refused", **request)


@pytest.mark.parametrize("name", [".", ".."])
def test_a_channel_name_that_would_lead_out_of_the_inputs_is_refused(
    account: Account, name: str
) -> None:
    with pytest.raises(ClientError, match="a channel is a folder below /opt/ml/input/data"):
        account.train("refused", InputDataConfig=[channel(f"s3://{BUCKET}/data/", name)])


@pytest.mark.parametrize(
    ("name", "key", "reason"),
    [
        ("sly", "../../../../escaped", "leads out of its folder"),
        ("folder-and-file", "one/two", "Could not store s3://{uri}"),
        ("long-part", "x" * 300, "Could not store s3://{uri}"),
        ("dot", ".", "Could not store s3://{uri}"),
        ("twice", "a//b", "S3 key: s3://{uri} has an illegal char sub-sequence '//' in it"),
        ("first", "/b", "S3 key: s3://{uri} has an illegal char sub-sequence '//' in it"),
    ],
)
def test_a_key_that_cannot_be_a_file_of_the_channel_fails_the_job_as_the_users_mistake(
    account: Account, name: str, key: str, reason: str
) -> None:
    account.put(f"{name}/one", b"1")
    account.put(f"{name}/{key}", b"2")
    job = account.train(name, InputDataConfig=[channel(f"s3://{BUCKET}/{name}/")])
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


OTHER = "models-of-somebody-else"
NOT_NAMED = (
    f' on resource: "arn:aws:s3:::{OTHER}/model.tar.gz" because no VPC endpoint policy allows the'
    " s3:GetObject action"
)


@pytest.fixture(scope="module")
def strict(runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """Yield an account whose role may do everything, with two buckets."""
    assert runtime.exists()
    with emulator(tmp_path_factory.mktemp("gateways"), "--enforce-iam") as local:
        strict = Account.at(local.account)
        put_policies(strict.client("iam"), "jobs", {"everything": allow("*")})
        strict.client("s3").create_bucket(Bucket=OTHER)
        strict.client("s3").put_object(Bucket=OTHER, Key="model.tar.gz", Body=b"a model")
        yield strict


@pytest.fixture(scope="module")
def vpc(strict: Account) -> dict[str, list[str]]:
    """Return the VpcConfig of a subnet whose gateway endpoint reaches the tests' bucket only."""
    ec2 = strict.client("ec2")
    vpc, subnet, groups = new_vpc(ec2, "hosts")
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    own = {"StringEquals": {"aws:PrincipalAccount": strict.number}}
    arns = [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"]
    policy = allow("s3:*", arns, Principal={"AWS": "*"}, Condition=own)
    ec2.create_vpc_endpoint(
        VpcId=vpc,
        ServiceName="com.amazonaws.us-east-1.s3",
        VpcEndpointType="Gateway",
        RouteTableIds=[table],
        PolicyDocument=json.dumps(policy),
    )
    return {"Subnets": [subnet], "SecurityGroupIds": [groups["hosts"]]}


def test_an_endpoint_cannot_serve_from_a_bucket_that_its_vpc_does_not_reach(
    strict: Account, vpc: dict[str, list[str]]
) -> None:
    """Its role may read the archive, and the bucket's owner does not mind."""
    url = f"s3://{OTHER}/model.tar.gz"
    container = {"Image": INFERENCE_IMAGE, "ModelDataUrl": url, "Environment": ENVIRONMENT}
    configure_container(strict, "closed", container, vpc=vpc)
    assert NOT_NAMED in create(strict, "closed")["FailureReason"]


@pytest.mark.parametrize(
    ("bucket", "network", "status"),
    [(BUCKET, True, "Completed"), (OTHER, True, "Failed"), (OTHER, False, "Completed")],
)
def test_what_a_job_in_a_vpc_asks_of_s3_needs_the_gateways_policy_too(
    strict: Account, vpc: dict[str, list[str]], bucket: str, network: bool, status: str
) -> None:
    strict.client("s3").put_object(Bucket=BUCKET, Key="model.tar.gz", Body=b"a model")
    changes: dict[str, Any] = {
        "ProcessingInputs": [
            processing_input(f"s3://{bucket}/model.tar.gz", "/opt/ml/processing/i")
        ]
    }
    if network:
        changes["NetworkConfig"] = {"VpcConfig": vpc}
    script = "cp /opt/ml/processing/i/* /opt/ml/processing/report"
    job = strict.process(f"job-{bucket}-{network}", script, **changes)
    assert job["ProcessingJobStatus"] == status, job.get("FailureReason")
    if status == "Failed":
        assert "because no VPC endpoint policy allows the s3:ListBucket" in job["FailureReason"]
