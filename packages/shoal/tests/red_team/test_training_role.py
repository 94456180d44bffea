"""What a hostile training job tries with its own role, live: policies enforced, two accounts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account, running, trust
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from tests.identity.templates import Templates
from tests.repository import ROOT

pytestmark = pytest.mark.nightly
NAMES = Names(load_environment("dev", ROOT))
STAGING = Names(load_environment("staging", ROOT))
ARTIFACTS, DATA = NAMES.bucket("artifacts"), NAMES.bucket("data")
ROLES = ("pipeline", "evaluation", "endpoint", "seal", "teardown", "smoke-test")
PACKAGE = NAMES.arn("sagemaker", f"model-package/{NAMES.model_package_group}/1")
EXECUTION = "abcdefghijkl"
OBJECTS = (
    f"evaluation/{EXECUTION}/evaluation.json",
    "models/0/model.tar.gz",
    "captured/x.jsonl",
)
OUTPUT = {"Bucket": ARTIFACTS, "Key": f"training/{EXECUTION}/output/model.tar.gz"}


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory, dev: Templates) -> Iterator[Account]:
    """Yield an account with dev's buckets, what a pipeline leaves in them, and its roles."""
    numbers = ("--account", NAMES.environment.account, "--account", STAGING.environment.account)
    with running(tmp_path_factory.mktemp("red"), *numbers, "--enforce-iam") as account:
        iam, s3 = account.client("iam"), account.client("s3")
        for actor in ("training", *ROLES):
            principals = {"AWS": NAMES.environment.account}
            iam.create_role(RoleName=NAMES.role(actor), AssumeRolePolicyDocument=trust(principals))
        for name, document in dev.identity_policies()[NAMES.role("training")].items():
            iam.put_role_policy(
                RoleName=NAMES.role("training"),
                PolicyName=name,
                PolicyDocument=json.dumps(document),
            )
        for bucket in (ARTIFACTS, DATA):
            s3.create_bucket(Bucket=bucket)
        for key in (*OBJECTS, OUTPUT["Key"]):
            s3.put_object(Bucket=ARTIFACTS, Key=key, Body=b"honest")
        staging = account.other(STAGING.environment.account).client("s3")
        staging.create_bucket(Bucket=STAGING.bucket("artifacts"))
        yield account


def tries() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield service, operation and arguments of each call."""
    for actor in ROLES:
        role = {"RoleArn": NAMES.role_arn(actor), "RoleSessionName": "evil"}
        yield "sts", "assume_role", role
    bootstrap = f"arn:aws:iam::{NAMES.environment.account}:role/cdk-hnb659fds-deploy-role-x"
    yield "sts", "assume_role", {"RoleArn": bootstrap, "RoleSessionName": "evil"}
    yield "iam", "create_user", {"UserName": "evil"}
    policy = {"PolicyName": "evil", "PolicyDocument": "{}", "RoleName": NAMES.role("training")}
    yield "iam", "put_role_policy", policy
    approved = {"ModelPackageArn": PACKAGE, "ModelApprovalStatus": "Approved"}
    yield "sagemaker", "update_model_package", approved
    yield "sagemaker", "start_pipeline_execution", {"PipelineName": NAMES.pipeline}
    yield "sagemaker", "list_models", {}
    yield "sagemaker", "delete_endpoint", {"EndpointName": f"{NAMES.pipeline}-{EXECUTION}"}
    call = {"EndpointName": NAMES.serving_endpoint, "Body": b"{}"}
    yield "sagemaker-runtime", "invoke_endpoint", call
    yield "lambda", "invoke", {"FunctionName": NAMES.function("teardown")}
    for key in OBJECTS:
        yield "s3", "put_object", {"Bucket": ARTIFACTS, "Key": key, "Body": b"forged"}
        yield "s3", "delete_object", {"Bucket": ARTIFACTS, "Key": key}
    for key in OBJECTS[:2]:
        yield "s3", "get_object", {"Bucket": ARTIFACTS, "Key": key}
    yield "s3", "delete_object", OUTPUT
    yield "s3", "list_objects_v2", {"Bucket": ARTIFACTS}
    for key in ("manifests/dev/x.json", "datasets/mnist/train/x"):
        yield "s3", "put_object", {"Bucket": DATA, "Key": key, "Body": b"forged"}
    yield "s3", "list_objects_v2", {"Bucket": STAGING.bucket("artifacts")}
    stream = {"logGroupName": "/aws/sagemaker/TrainingJobs", "logStreamName": "somebodys-job/x"}
    event = {"timestamp": 1, "message": "forged"}
    yield "logs", "put_log_events", stream | {"logEvents": [event]}


@pytest.mark.parametrize(("service", "operation", "arguments"), list(tries()))
def test_a_training_jobs_role_is_refused(
    account: Account, service: str, operation: str, arguments: dict[str, Any]
) -> None:
    client = account.as_role(service, NAMES.role_arn("training"))
    with pytest.raises(ClientError, match="AccessDenied"):
        getattr(client, operation)(**arguments)


def test_what_it_is_for_it_may_do(account: Account) -> None:
    """The refusals above are of a role that works."""
    account.as_role("s3", NAMES.role_arn("training")).put_object(**OUTPUT, Body=b"its own")
