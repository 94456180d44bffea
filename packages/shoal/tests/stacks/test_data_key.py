"""The key's policy: administered by the account, used through S3 for our buckets only, lent to
services, and nothing else.
"""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from shoal.constructs.data.data_key import environment_key
from shoal.settings.key_policy import key_statements
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.file_system import DeploymentType, FileSystem
from tests.repository import ROOT
from tests.stacks.reading import as_list, properties

ACCOUNT_ROOT = {"AWS": "arn:aws:iam::111122223333:root"}
USES = (
    "Decrypt",
    "Encrypt",
    "GenerateDataKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
    "CreateGrant",
    "Sign",
)
BUCKET_OBJECTS = [
    f"arn:aws:s3:::shoal-mnist-dev-{purpose}-111122223333-us-east-1{objects}"
    for purpose in ("data", "artifacts")
    for objects in ("", "/*")
]
Policies = dict[str, dict[str, dict[str, Any]]]
FILE_SYSTEMS = {
    "none": None,
    "scratch": FileSystem(),
    "persistent": FileSystem(
        deployment_type=DeploymentType.PERSISTENT_2, throughput_mbps_per_tib=125
    ),
}


def _policy(
    file_system: FileSystem | None, context: dict[str, Any], folder: Path
) -> dict[str, dict[str, Any]]:
    """Return the statements of dev's key, alone in a stack, by Sid."""
    environment = load_environment("dev", ROOT).model_copy(update={"file_system": file_system})
    app = cdk.App(outdir=str(folder), context=context)
    stack = cdk.Stack(
        app, "Stack", env=cdk.Environment(account=environment.account, region=environment.region)
    )
    names = Names(environment)
    statements = key_statements(names, ())
    environment_key(stack, names, alias="data", description="Data", statements=statements)
    (key,) = properties(Template.from_stack(stack), "AWS::KMS::Key")
    return {statement["Sid"]: statement for statement in key["KeyPolicy"]["Statement"]}


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]) -> Policies:
    """Without a file system, and with one of each kind."""
    return {
        name: _policy(kind, cdk_context, tmp_path_factory.mktemp(name))
        for name, kind in FILE_SYSTEMS.items()
    }


def _statements(policies: Policies) -> list[dict[str, Any]]:
    return [statement for policy in policies.values() for statement in policy.values()]


def test_the_key_itself_names_this_account_and_services_for_it_only_and_nobody_has_every_action(
    policies: Policies,
) -> None:
    for statement in _statements(policies):
        is_limited = "Condition" in statement and statement["Principal"].keys() <= {"Service"}
        is_for_fsx = statement["Sid"] == "FileSystemsThroughS3"
        assert statement["Principal"] == ACCOUNT_ROOT or is_limited or is_for_fsx
        assert not {"*", "kms:*"} & {*as_list(statement["Action"])}


def test_administration_does_not_use_the_key(policies: Policies) -> None:
    granted = policies["none"]["AdministerKey"]["Action"]
    assert [
        use for use in USES if any(fnmatch.fnmatch(f"kms:{use}", action) for action in granted)
    ] == []


def test_the_account_can_always_change_the_policy_or_the_key_would_be_lost(
    policies: Policies,
) -> None:
    statement = policies["none"]["AdministerKey"]
    assert (statement["Principal"], "Condition" in statement) == (ACCOUNT_ROOT, False)
    assert {"kms:PutKeyPolicy", "kms:ScheduleKeyDeletion", "kms:DescribeKey"} <= set(
        statement["Action"]
    )


def test_the_key_decrypts_through_s3_and_for_our_buckets_only(policies: Policies) -> None:
    decrypting = {
        sid: entry
        for sid, entry in policies["none"].items()
        if "kms:Decrypt" in as_list(entry["Action"]) and entry["Principal"] == ACCOUNT_ROOT
    }
    assert decrypting.keys() == {"ReadAndWriteBuckets"}
    assert decrypting["ReadAndWriteBuckets"]["Condition"] == {
        "StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"},
        "StringLike": {"kms:EncryptionContext:aws:s3:arn": BUCKET_OBJECTS},
    }


def test_grants_are_for_aws_services_only(policies: Policies) -> None:
    conditions = [
        entry["Condition"]
        for entry in _statements(policies)
        if "kms:CreateGrant" in as_list(entry["Action"])
    ]
    assert conditions == [{"Bool": {"kms:GrantIsForAWSResource": "true"}}] * len(policies)


def test_only_a_persistent_file_system_is_encrypted_with_the_key(policies: Policies) -> None:
    assert [name for name, policy in policies.items() if "EncryptFileSystem" in policy] == [
        "persistent"
    ]
    condition = policies["persistent"]["EncryptFileSystem"]["Condition"]
    assert condition == {"StringEquals": {"kms:ViaService": "fsx.us-east-1.amazonaws.com"}}
