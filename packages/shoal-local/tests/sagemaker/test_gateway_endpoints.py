"""A host in a VPC reaches S3 through its gateway endpoint: only what that one's policy names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import allow
from local_kit.hosted import ENVIRONMENT, configure_container, create
from local_kit.sagemaker_account import BUCKET, INFERENCE_IMAGE, Account, processing_input
from shoal_local.testing import emulator

OTHER = "models-of-somebody-else"
NOT_NAMED = (
    f' on resource: "arn:aws:s3:::{OTHER}/model.tar.gz" because no VPC endpoint policy allows the'
    " s3:GetObject action"
)


@pytest.fixture(scope="module")
def account(runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """Yield an account whose role may do everything, with two buckets."""
    assert runtime.exists()
    with emulator(tmp_path_factory.mktemp("gateways"), "--enforce-iam") as local:
        account = Account.at(local.account)
        everything = json.dumps(allow("*"))
        account.client("iam").put_role_policy(
            RoleName="jobs", PolicyName="everything", PolicyDocument=everything
        )
        account.client("s3").create_bucket(Bucket=OTHER)
        account.client("s3").put_object(Bucket=OTHER, Key="model.tar.gz", Body=b"a model")
        yield account


@pytest.fixture(scope="module")
def vpc(account: Account) -> dict[str, list[str]]:
    """Return the VpcConfig of a subnet whose gateway endpoint reaches the tests' bucket only."""
    ec2 = account.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.1.0.0/24")["Subnet"]["SubnetId"]
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    ec2.create_vpc_endpoint(
        VpcId=vpc,
        ServiceName="com.amazonaws.us-east-1.s3",
        VpcEndpointType="Gateway",
        RouteTableIds=[table],
        PolicyDocument=json.dumps(
            allow(
                "s3:*",
                [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"],
                Principal={"AWS": "*"},
                Condition={"StringEquals": {"aws:PrincipalAccount": account.number}},
            )
        ),
    )
    group = ec2.create_security_group(GroupName="hosts", Description="hosts", VpcId=vpc)["GroupId"]
    return {"Subnets": [subnet], "SecurityGroupIds": [group]}


def test_an_endpoint_cannot_serve_from_a_bucket_that_its_vpc_does_not_reach(
    account: Account, vpc: dict[str, list[str]]
) -> None:
    """Its role may read the archive, and the bucket's owner does not mind."""
    url = f"s3://{OTHER}/model.tar.gz"
    container = {"Image": INFERENCE_IMAGE, "ModelDataUrl": url, "Environment": ENVIRONMENT}
    configure_container(account, "closed", container, vpc=vpc)
    assert NOT_NAMED in create(account, "closed")["FailureReason"]


@pytest.mark.parametrize(
    ("bucket", "network", "status"),
    [(BUCKET, True, "Completed"), (OTHER, True, "Failed"), (OTHER, False, "Completed")],
)
def test_what_a_job_in_a_vpc_asks_of_s3_needs_the_gateways_policy_too(
    account: Account, vpc: dict[str, list[str]], bucket: str, network: bool, status: str
) -> None:
    account.client("s3").put_object(Bucket=BUCKET, Key="model.tar.gz", Body=b"a model")
    changes: dict[str, Any] = {
        "ProcessingInputs": [
            processing_input(f"s3://{bucket}/model.tar.gz", "/opt/ml/processing/i")
        ]
    }
    if network:
        changes["NetworkConfig"] = {"VpcConfig": vpc}
    script = "cp /opt/ml/processing/i/* /opt/ml/processing/report"
    job = account.process(f"job-{bucket}-{network}", script, **changes)
    assert job["ProcessingJobStatus"] == status, job.get("FailureReason")
    if status == "Failed":
        assert "because no VPC endpoint policy allows the s3:ListBucket" in job["FailureReason"]
