"""What is kept is encrypted, TLS only and versioned; it stays in a protected environment and is
deleted with a throw-away one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Match, Template

from shoal.constructs.data.storage import Storage
from shoal.settings.loading.loader import environment_names, load_environment
from shoal.settings.names import Names
from stacks.platform import EnvironmentStage
from tests.repository import ROOT
from tests.stacks.reading import as_list, named, only, properties, resources, statements

KEPT = ("AWS::KMS::Key", "AWS::S3::Bucket", "AWS::S3::BucketPolicy")
PURPOSES = ("artifacts", "data", "logs")


def _bucket(template: Template, purpose: str) -> dict[str, Any]:
    name = f"shoal-mnist-dev-{purpose}-111122223333-us-east-1"
    return named(template, "AWS::S3::Bucket", name)


def _rules(template: Template, purpose: str) -> dict[str, dict[str, Any]]:
    rules = _bucket(template, purpose)["LifecycleConfiguration"]["Rules"]
    return {rule["Id"]: rule for rule in rules}


def _bucket_statements(template: Template) -> list[dict[str, Any]]:
    return [
        entry
        for policy in properties(template, "AWS::S3::BucketPolicy")
        for entry in policy["PolicyDocument"]["Statement"]
    ]


def test_buckets_have_the_names_that_users_upload_to(data: Template) -> None:
    assert sorted(bucket["BucketName"] for bucket in properties(data, "AWS::S3::Bucket")) == [
        f"shoal-mnist-dev-{purpose}-111122223333-us-east-1" for purpose in PURPOSES
    ]


@pytest.mark.parametrize("purpose", PURPOSES)
def test_every_bucket_is_versioned_and_closed_to_the_public_and_has_no_access_control_lists(
    data: Template, purpose: str
) -> None:
    blocked = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    expected = {
        "VersioningConfiguration": {"Status": "Enabled"},
        "PublicAccessBlockConfiguration": dict.fromkeys(blocked, True),
        "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
    }
    bucket = _bucket(data, purpose)
    assert expected.items() <= bucket.items()
    assert "AccessControl" not in bucket


@pytest.mark.parametrize(
    "condition",
    [{"Bool": {"aws:SecureTransport": "false"}}, {"NumericLessThan": {"s3:TlsVersion": 1.2}}],
    ids=["without TLS", "TLS before 1.2"],
)
def test_every_bucket_refuses_requests(data: Template, condition: dict[str, Any]) -> None:
    refusal = {
        "Effect": "Deny",
        "Action": "s3:*",
        "Principal": {"AWS": "*"},
        "Condition": condition,
    }
    data.resource_count_is("AWS::S3::BucketPolicy", 3)
    data.all_resources_properties(
        "AWS::S3::BucketPolicy",
        {"PolicyDocument": {"Statement": Match.array_with([Match.object_like(refusal)])}},
    )


@pytest.mark.parametrize(
    ("actions", "actors"),
    [
        (["s3:PutObject", "s3:ReplicateObject"], ["seal", "bring"]),
        (
            ["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:ReplicateDelete"],
            ["empty-on-delete"],
        ),
    ],
)
def test_sealed_models_are_closed_to_everybody_but_these_roles(
    data: Template, actions: list[str], actors: list[str]
) -> None:
    (refusal,) = [
        entry
        for entry in _bucket_statements(data)
        if entry["Action"] == actions and entry["Effect"] == "Deny"
    ]
    models = "arn:aws:s3:::shoal-mnist-dev-artifacts-111122223333-us-east-1/models/*"
    assert (refusal["Principal"], refusal["Resource"]) == ({"AWS": "*"}, models)
    roles = [f"arn:aws:iam::111122223333:role/shoal-mnist-dev-us-east-1-{each}" for each in actors]
    assert refusal["Condition"] == {"ArnNotEquals": {"aws:PrincipalArn": roles}}


def test_nobody_is_allowed_into_a_bucket_by_its_policy_but_the_log_service(data: Template) -> None:
    allowed = [entry for entry in _bucket_statements(data) if entry["Effect"] == "Allow"]
    assert allowed
    for entry in allowed:
        assert entry["Principal"] == {"Service": "logging.s3.amazonaws.com"}
        assert entry["Condition"]["StringEquals"] == {"aws:SourceAccount": "111122223333"}


@pytest.mark.parametrize("purpose", ["data", "artifacts"])
def test_data_and_artifacts_are_encrypted_with_our_key_and_access_to_them_is_logged(
    data: Template, purpose: str
) -> None:
    (key_id,) = resources(data, "AWS::KMS::Key")
    (logs,) = [key for key in resources(data, "AWS::S3::Bucket") if key.startswith("StorageLogs")]
    bucket = _bucket(data, purpose)
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {
        "SSEAlgorithm": "aws:kms",
        "KMSMasterKeyID": {"Fn::GetAtt": [key_id, "Arn"]},
    }
    assert bucket["LoggingConfiguration"] == {
        "DestinationBucketName": {"Ref": logs},
        "LogFilePrefix": f"{purpose}/",
    }


def test_the_key_rotates_and_a_service_uses_it_for_this_account_or_its_log_groups_only(
    data: Template,
) -> None:
    key = only(data, "AWS::KMS::Key")
    assert key["EnableKeyRotation"] is True
    services = [entry for entry in key["KeyPolicy"]["Statement"] if "Service" in entry["Principal"]]
    for entry in services:
        assert "111122223333" in str(entry["Condition"])
        assert not {"kms:CreateGrant", "kms:*"} & {*as_list(entry["Action"])}


@pytest.mark.parametrize(("purpose", "days"), [("data", 90), ("artifacts", 30), ("logs", 30)])
def test_old_versions_and_broken_uploads_do_not_pile_up(
    data: Template, purpose: str, days: int
) -> None:
    expected = {
        "NoncurrentVersionExpiration": {"NoncurrentDays": days},
        "ExpiredObjectDeleteMarker": True,
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
    }
    assert expected.items() <= _rules(data, purpose)["clean-up"].items()


def test_checkpoints_candidates_pages_and_access_logs_expire_and_nothing_else_does(
    data: Template,
) -> None:
    rules = [(purpose, rule) for purpose in PURPOSES for rule in _rules(data, purpose).values()]
    assert {rule["Status"] for _, rule in rules} == {"Enabled"}
    assert {
        (purpose, rule.get("Prefix", ""), rule["ExpirationInDays"])
        for purpose, rule in rules
        if "ExpirationInDays" in rule
    } == {
        ("artifacts", "checkpoints/", 30),
        ("artifacts", "models/_candidates/", 1),
        ("artifacts", "runs/", 90),
        ("logs", "", 365),
    }


def test_pages_of_runs_are_kept_as_long_as_logs_are(
    tmp_path: Path, cdk_context: dict[str, Any]
) -> None:
    environment = load_environment("dev", ROOT)
    observability = environment.observability.model_copy(update={"log_retention_days": 7})
    stack = cdk.Stack(cdk.App(outdir=str(tmp_path), context=cdk_context), "Stack")
    names = Names(environment.model_copy(update={"observability": observability}))
    Storage(stack, "Storage", names=names)
    rule = _rules(Template.from_stack(stack), "artifacts")["expire-runs"]
    assert (rule["Prefix"], rule["ExpirationInDays"]) == ("runs/", 7)


@pytest.mark.parametrize("resource_type", KEPT)
def test_a_protected_environment_keeps_its_data_and_a_throw_away_one_goes_completely(
    protected_data: Template, data: Template, resource_type: str
) -> None:
    for template, policy in ((protected_data, "RetainExceptOnCreate"), (data, "Delete")):
        every = resources(template, resource_type).values()
        assert {resource["DeletionPolicy"] for resource in every} == {policy}


def test_a_protected_environment_has_nothing_that_could_empty_it(protected_data: Template) -> None:
    types = {resource["Type"] for resource in protected_data.to_json()["Resources"].values()}
    assert not {
        kind for kind in types if kind.startswith("Custom::") or kind == "AWS::Lambda::Function"
    }


def test_every_environment_but_dev_is_protected() -> None:
    names = environment_names(ROOT)
    assert [name for name in names if not load_environment(name, ROOT).protect] == ["dev"]


@pytest.mark.parametrize(("name", "protected"), [("dev", False), ("prod", True)])
def test_stacks_of_a_protected_environment_are_protected_from_deletion(
    stages: dict[str, EnvironmentStage], name: str, protected: bool
) -> None:
    stage = stages[name]
    stacks = (stage.network, stage.data, stage.workloads[0].pipeline)
    assert [stack.termination_protection for stack in stacks] == [protected] * 3


def test_every_bucket_of_a_throw_away_environment_is_emptied_before_it_goes(data: Template) -> None:
    """The function asks for the tag."""
    emptied = {
        entry["Properties"]["BucketName"]["Ref"]: entry["DependsOn"]
        for entry in resources(data, "Custom::EmptyBucket").values()
    }
    buckets = resources(data, "AWS::S3::Bucket")
    assert emptied.keys() == buckets.keys()
    tag = {"Key": "shoal:empty-on-delete", "Value": "true"}
    for key, bucket in buckets.items():
        assert key in emptied[key]
        assert tag in bucket["Properties"]["Tags"]


def test_the_emptying_role_reaches_only_this_environments_buckets(data: Template) -> None:
    granted = statements(data, "shoal-mnist-dev-us-east-1-empty-on-delete")
    assert {*as_list(granted["DeleteVersions"]["Resource"])} == {
        f"arn:aws:s3:::shoal-mnist-dev-{purpose}-111122223333-us-east-1/*" for purpose in PURPOSES
    }
