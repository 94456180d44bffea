"""The doctor asks what the account has already: its bootstrap, and an organisation's roles, key and
bucket.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from local_kit.control import allow, trust
from shoal.aws.target import Target
from shoal.settings.key_policy import organisation_key_policy
from shoal.settings.names import Names
from shoal.verbs.doctor.findings import State
from tests.verbs.test_doctor import changed, examined


@contextmanager
def bootstrapped(
    target: Target, version: str = "30", qualifier: str = "hnb659fds", **encryption: str
) -> Iterator[None]:
    """Bootstrap the account as far as the doctor looks; `encryption` is the bucket's default."""
    ssm, s3 = target.client("ssm"), target.client("s3")
    name = f"/cdk-bootstrap/{qualifier}/version"
    bucket = f"cdk-{qualifier}-assets-{target.account}-{target.region}"
    ssm.put_parameter(Name=name, Value=version, Type="String", Overwrite=True)
    s3.create_bucket(Bucket=bucket)
    if encryption:
        rules = [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", **encryption}}]
        s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": rules})
    try:
        yield
    finally:
        ssm.delete_parameter(Name=name)
        s3.delete_bucket(Bucket=bucket)


def key_with_policy(target: Target, *statements: dict[str, Any]) -> str:
    """Return the ARN of a key that its account may manage, with more statements."""
    account = {"AWS": f"arn:aws:iam::{target.account}:root"}
    own = {"Effect": "Allow", "Principal": account, "Action": "kms:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [own, *statements]})
    arn: str = target.client("kms").create_key(Policy=policy)["KeyMetadata"]["Arn"]
    return arn


@pytest.mark.parametrize(("version", "state"), [("5", State.FAILED), ("30", State.OK)])
def test_the_bootstrap_must_be_new_enough(target: Target, version: str, state: State) -> None:
    with bootstrapped(target, version):
        assert examined(target, changed())["bootstrap"].state is state


def test_another_qualifier_needs_a_second_bootstrap(target: Target) -> None:
    with bootstrapped(target, qualifier="team1"):
        finding = examined(target, changed())["bootstrap"]
    assert finding.state is State.FAILED
    assert "with the qualifier team1 only" in finding.message
    assert "set organisation.bootstrap_qualifier to team1" in finding.advice
    assert "--toolkit-stack-name CDKToolkit-shoal --qualifier hnb659fds" in finding.advice


def test_the_bootstrap_of_the_organisation_is_used(target: Target) -> None:
    with bootstrapped(target, qualifier="team1"):
        environment = changed(organisation={"bootstrap_qualifier": "team1"})
        assert examined(target, environment)["bootstrap"].state is State.OK


@pytest.mark.parametrize(
    ("resource", "state"),
    [("role/shoal-*", State.WARNING), ("role/ml/ml-shoal-*", State.OK)],
)
def test_the_bootstraps_role_must_be_allowed_the_organisations_roles(
    target: Target, resource: str, state: State
) -> None:
    iam, own = target.client("iam"), f"arn:aws:iam::{target.account}:"
    name = f"cdk-hnb659fds-cfn-exec-role-{target.account}-{target.region}"
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust({"AWS": target.account}))
    policy = json.dumps(allow(["iam:*"], own + resource))
    iam.put_role_policy(RoleName=name, PolicyName="roles", PolicyDocument=policy)
    environment = changed(organisation={"role_path": "/ml/", "role_prefix": "ml-"})
    finding = examined(target, environment)["roles"]
    iam.delete_role_policy(RoleName=name, PolicyName="roles")
    iam.delete_role(RoleName=name)
    assert (finding.state, f"{own}role/ml/ml-shoal-mnist-dev" in finding.message) == (state, True)


@pytest.mark.parametrize(
    ("needed", "state", "says"),
    [(True, State.OK, "names whom it serves"), (False, State.FAILED, "nothing like")],
)
def test_the_organisations_key_must_allow_what_plan_prints(
    target: Target, needed: bool, state: State, says: str
) -> None:
    statements = organisation_key_policy(Names(changed()), ()) if needed else []
    arn = key_with_policy(target, *statements)
    finding = examined(target, changed(organisation={"kms_key_arn": arn}))["key"]
    assert (finding.state, says in finding.message) == (state, True)


@pytest.mark.parametrize(
    ("bucket", "encryption", "says"),
    [
        ("lake-plain", {"SSEAlgorithm": "AES256"}, "can be used"),
        ("lake-other", {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "other"}, "no job may use"),
        ("lake-of-nobody", {}, "there is no bucket"),
    ],
)
def test_the_organisations_bucket_must_be_one_that_jobs_can_read(
    target: Target, bucket: str, encryption: dict[str, str], says: str
) -> None:
    s3 = target.client("s3")
    if encryption:
        s3.create_bucket(Bucket=bucket)
        rules = [{"ApplyServerSideEncryptionByDefault": encryption}]
        configuration = {"Rules": rules}
        s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=configuration)
    finding = examined(target, changed(organisation={"data_bucket": bucket}))["data bucket"]
    assert says in finding.message
    assert (finding.state is State.OK) == (bucket == "lake-plain")


def test_a_bucket_under_a_key_that_only_the_account_may_use_is_refused(target: Target) -> None:
    """The customer key of the bootstrap itself is fine."""
    key = key_with_policy(target)
    with bootstrapped(target, KMSMasterKeyID=key):
        finding = examined(target, changed())["bootstrap"]
    assert finding.state is State.FAILED
    assert f"encrypted with {key}" in finding.message
    assert "role/shoal-mnist-dev-us-east-1-training, " in finding.message
    service = f"s3.{target.region}.amazonaws.com"
    through_s3 = {"kms:CallerAccount": target.account, "kms:ViaService": service}
    everybody = {
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": ["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey*"],
        "Resource": "*",
        "Condition": {"StringEquals": through_s3},
    }
    with bootstrapped(target, KMSMasterKeyID=key_with_policy(target, everybody)):
        assert examined(target, changed())["bootstrap"].state is State.OK


def test_a_bootstrap_whose_bucket_has_another_name_is_refused(target: Target) -> None:
    s3, bucket = target.client("s3"), f"cdk-hnb659fds-assets-{target.account}-{target.region}"
    with bootstrapped(target):
        s3.delete_bucket(Bucket=bucket)
        finding = examined(target, changed())["bootstrap"]
        s3.create_bucket(Bucket=bucket)
    says = "bootstrap without --bootstrap-bucket-name"
    assert (finding.state, finding.advice) == (State.FAILED, says)
