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
from tests.stacks.reading import as_list, properties, resources, statements

KEPT = (
    "AWS::KMS::Key",
    "AWS::S3::Bucket",
    "AWS::S3::BucketPolicy",
)


def _bucket(template: Template, purpose: str) -> dict[str, Any]:
    (bucket,) = [
        entry
        for entry in properties(template, "AWS::S3::Bucket")
        if f"-{purpose}-" in entry["BucketName"]
    ]
    return bucket


def _rules(template: Template, purpose: str) -> dict[str, dict[str, Any]]:
    return {
        rule["Id"]: rule for rule in _bucket(template, purpose)["LifecycleConfiguration"]["Rules"]
    }


def test_buckets_have_the_names_that_users_upload_to(data: Template) -> None:
    assert sorted(bucket["BucketName"] for bucket in properties(data, "AWS::S3::Bucket")) == [
        f"shoal-mnist-dev-{purpose}-111122223333-us-east-1"
        for purpose in ("artifacts", "data", "logs")
    ]


def test_every_bucket_is_versioned(data: Template) -> None:
    assert all(
        bucket["VersioningConfiguration"] == {"Status": "Enabled"}
        for bucket in properties(data, "AWS::S3::Bucket")
    )


def test_every_bucket_blocks_public_access(data: Template) -> None:
    data.all_resources_properties(
        "AWS::S3::Bucket",
        {
            "PublicAccessBlockConfiguration": dict.fromkeys(
                (
                    "BlockPublicAcls",
                    "BlockPublicPolicy",
                    "IgnorePublicAcls",
                    "RestrictPublicBuckets",
                ),
                True,
            )
        },
    )


def test_every_bucket_refuses_requests_without_tls(data: Template) -> None:
    refusal = {
        "Effect": "Deny",
        "Action": "s3:*",
        "Principal": {"AWS": "*"},
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    data.resource_count_is("AWS::S3::BucketPolicy", 3)
    data.all_resources_properties(
        "AWS::S3::BucketPolicy",
        {"PolicyDocument": {"Statement": Match.array_with([Match.object_like(refusal)])}},
    )


def test_every_bucket_refuses_tls_before_1_2(data: Template) -> None:
    refusal = {
        "Effect": "Deny",
        "Action": "s3:*",
        "Principal": {"AWS": "*"},
        "Condition": {"NumericLessThan": {"s3:TlsVersion": 1.2}},
    }
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
        for policy in properties(data, "AWS::S3::BucketPolicy")
        for entry in policy["PolicyDocument"]["Statement"]
        if entry["Action"] == actions and entry["Effect"] == "Deny"
    ]
    assert (refusal["Principal"], refusal["Resource"]) == (
        {"AWS": "*"},
        "arn:aws:s3:::shoal-mnist-dev-artifacts-111122223333-us-east-1/models/*",
    )
    roles = [f"arn:aws:iam::111122223333:role/shoal-mnist-dev-us-east-1-{each}" for each in actors]
    assert refusal["Condition"] == {"ArnNotEquals": {"aws:PrincipalArn": roles}}


def test_nobody_is_allowed_into_a_bucket_by_its_policy_but_the_log_service(data: Template) -> None:
    entries = [
        entry
        for policy in properties(data, "AWS::S3::BucketPolicy")
        for entry in policy["PolicyDocument"]["Statement"]
    ]
    allowed = [entry for entry in entries if entry["Effect"] == "Allow"]
    assert {str(entry["Principal"]) for entry in allowed} == {
        "{'Service': 'logging.s3.amazonaws.com'}"
    }
    assert all(
        entry["Condition"]["StringEquals"] == {"aws:SourceAccount": "111122223333"}
        for entry in allowed
    )


def test_no_bucket_has_access_control_lists(data: Template) -> None:
    owned = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    assert all(
        bucket["OwnershipControls"] == owned and "AccessControl" not in bucket
        for bucket in properties(data, "AWS::S3::Bucket")
    )


@pytest.mark.parametrize("purpose", ["data", "artifacts"])
def test_data_and_artifacts_are_encrypted_with_the_customer_managed_key(
    data: Template, purpose: str
) -> None:
    ((key_id, _),) = resources(data, "AWS::KMS::Key").items()
    (rule,) = _bucket(data, purpose)["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {
        "SSEAlgorithm": "aws:kms",
        "KMSMasterKeyID": {"Fn::GetAtt": [key_id, "Arn"]},
    }


@pytest.mark.parametrize("purpose", ["data", "artifacts"])
def test_access_to_data_and_artifacts_is_logged(data: Template, purpose: str) -> None:
    logging = _bucket(data, purpose)["LoggingConfiguration"]
    (logs,) = [
        key
        for key, bucket in resources(data, "AWS::S3::Bucket").items()
        if "-logs-" in bucket["Properties"]["BucketName"]
    ]
    assert logging == {"DestinationBucketName": {"Ref": logs}, "LogFilePrefix": f"{purpose}/"}


def test_the_key_rotates(data: Template) -> None:
    (key,) = properties(data, "AWS::KMS::Key")
    assert key["EnableKeyRotation"] is True


def test_a_service_uses_the_key_for_this_account_or_its_log_groups_only(data: Template) -> None:
    (key,) = properties(data, "AWS::KMS::Key")
    services = [entry for entry in key["KeyPolicy"]["Statement"] if "Service" in entry["Principal"]]
    assert all("111122223333" in str(entry["Condition"]) for entry in services)
    assert not any(
        "kms:CreateGrant" in as_list(entry["Action"]) or "kms:*" in as_list(entry["Action"])
        for entry in services
    )


@pytest.mark.parametrize(("purpose", "days"), [("data", 90), ("artifacts", 30), ("logs", 30)])
def test_old_versions_and_broken_uploads_do_not_pile_up(
    data: Template, purpose: str, days: int
) -> None:
    rule = _rules(data, purpose)["clean-up"]
    assert (rule["NoncurrentVersionExpiration"], rule["ExpiredObjectDeleteMarker"]) == (
        {"NoncurrentDays": days},
        True,
    )
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}


def test_checkpoints_candidates_pages_and_access_logs_expire_and_nothing_else_does(
    data: Template,
) -> None:
    expiring = {
        (purpose, rule.get("Prefix", ""), rule["ExpirationInDays"])
        for purpose in ("data", "artifacts", "logs")
        for rule in _rules(data, purpose).values()
        if "ExpirationInDays" in rule
    }
    assert expiring == {
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


def test_every_lifecycle_rule_is_on(data: Template) -> None:
    assert {
        rule["Status"]
        for purpose in ("data", "artifacts", "logs")
        for rule in _rules(data, purpose).values()
    } == {"Enabled"}


@pytest.mark.parametrize("resource_type", KEPT)
def test_a_protected_environment_keeps_its_data(
    protected_data: Template, resource_type: str
) -> None:
    assert {
        resource["DeletionPolicy"] for resource in resources(protected_data, resource_type).values()
    } == {"RetainExceptOnCreate"}


@pytest.mark.parametrize("resource_type", KEPT)
def test_a_throw_away_environment_goes_completely(data: Template, resource_type: str) -> None:
    assert {resource["DeletionPolicy"] for resource in resources(data, resource_type).values()} == {
        "Delete"
    }


def test_a_protected_environment_has_nothing_that_could_empty_it(protected_data: Template) -> None:
    types = {resource["Type"] for resource in protected_data.to_json()["Resources"].values()}
    assert not {
        kind for kind in types if kind.startswith("Custom::") or kind == "AWS::Lambda::Function"
    }


def test_every_environment_but_dev_is_protected() -> None:
    assert [
        name for name in environment_names(ROOT) if not load_environment(name, ROOT).protect
    ] == ["dev"]


@pytest.mark.parametrize(("name", "protected"), [("dev", False), ("prod", True)])
def test_stacks_of_a_protected_environment_are_protected_from_deletion(
    stages: dict[str, EnvironmentStage], name: str, protected: bool
) -> None:
    stage = stages[name]
    assert [
        stack.termination_protection
        for stack in (stage.network, stage.data, stage.workloads[0].pipeline)
    ] == [protected] * 3


def test_every_bucket_of_a_throw_away_environment_is_emptied_before_it_goes(data: Template) -> None:
    emptied = {
        entry["Properties"]["BucketName"]["Ref"]: entry["DependsOn"]
        for entry in resources(data, "Custom::EmptyBucket").values()
    }
    assert emptied.keys() == resources(data, "AWS::S3::Bucket").keys()
    assert all(bucket in depends_on for bucket, depends_on in emptied.items())


def test_what_is_emptied_carries_the_tag_that_the_function_asks_for(data: Template) -> None:
    tag = {"Key": "shoal:empty-on-delete", "Value": "true"}
    assert all(tag in bucket["Tags"] for bucket in properties(data, "AWS::S3::Bucket"))


def test_the_emptying_role_reaches_only_this_environments_buckets(data: Template) -> None:
    granted = statements(data, "shoal-mnist-dev-us-east-1-empty-on-delete")
    assert {
        arn.split(":::")[1].split("-111122223333")[0]
        for arn in as_list(granted["DeleteVersions"]["Resource"])
    } == {f"shoal-mnist-dev-{purpose}" for purpose in ("data", "artifacts", "logs")}
