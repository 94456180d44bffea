"""What the policy of an environment's key allows, besides its administration: whether Shoal makes
the key, or it is an organisation's, whose owner adds this.

Principals that IAM allows to use it can read only what lies in this environment's buckets, through
S3. Sources: AWS KMS developer guide, "Key policies" and "kms:ViaService"; FSx for Lustre user
guide, "Encrypting data at rest" and "Working with server-side encrypted Amazon S3 buckets"; Amazon
ECR user guide, "Encryption at rest".
"""

from collections.abc import Iterator, Sequence
from typing import Any

from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import BUILDERS, SEALED, Names
from shoal.settings.sections.file_system import DeploymentType

Statement = dict[str, Any]
_BUCKETS = ("data", "artifacts")
_FSX_ROLES = (
    "role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com"
    "/AWSServiceRoleForFSxS3Access_fs-*"
)
_FSX_USES = ("Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey*", "ReEncrypt*")
# They publish without a role. For aws:SourceAccount: AWS's modern-data-architecture-accelerator,
# grantCloudWatchAlarmsTopicAccess: "supported and correct" for alarms, unlike for EventBridge.
PUBLISHERS = ("cloudwatch.amazonaws.com", "budgets.amazonaws.com")
# Not DescribeKey: it has no encryption context, so the condition would never hold
# (packages/shoal/tests/identity).
_LOGS_USES = ["kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]


def key_statements(names: Names, consumers: Sequence[Consumer]) -> list[Statement]:
    """Return the statements for what all workloads of an environment share the key for."""
    environment, file_system = names.environment, names.environment.file_system
    account, region = f"arn:aws:iam::{environment.account}:root", environment.region
    # S3 names the bucket in the encryption context where bucket keys are on, as here, otherwise
    # the object; the bucket's policy names the objects.
    through_s3 = {"kms:ViaService": f"s3.{region}.amazonaws.com"}
    objects = _objects(*(arn for purpose in _BUCKETS for arn in _arns(names.bucket(purpose))))
    in_buckets = {"StringEquals": through_s3, "StringLike": objects}
    rows: list[tuple[str, list[str], Statement]] = [
        ("ReadAndWriteBuckets", ["kms:Decrypt", "kms:GenerateDataKey"], in_buckets),
        # SageMaker's documentation requires it of a role that names a key for outputs, and does not
        # say through which service the call comes.
        ("EncryptOutputs", ["kms:Encrypt"], {}),
        ("LendKeyToServices", ["kms:CreateGrant"], {"Bool": {"kms:GrantIsForAWSResource": "true"}}),
    ]
    if file_system and file_system.deployment_type is DeploymentType.PERSISTENT_2:
        actions = ["kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext"]
        through_fsx = {"StringEquals": {"kms:ViaService": f"fsx.{region}.amazonaws.com"}}
        rows.append(("EncryptFileSystem", actions, through_fsx))
    statements = [
        _allow(sid, {"AWS": account}, actions, conditions) for sid, actions, conditions in rows
    ]
    if consumers:
        accounts = sorted({f"arn:aws:iam::{each.account}:root" for each in consumers})
        bucket, files = _arns(names.bucket("artifacts"), f"{SEALED}/*")
        conditions = {
            "StringEquals": through_s3,
            "StringLike": _objects(bucket, files),
            "ArnLike": {"aws:PrincipalArn": [each.role_arn for each in consumers]},
        }
        statements.append(
            _allow("DecryptSealedArchives", {"AWS": accounts}, ["kms:Decrypt"], conditions)
        )
    if file_system:
        # The role that FSx makes for each file system is named after its id, which is not known
        # before, and a principal cannot have a wildcard: hence the condition.
        conditions = {
            "StringEquals": {"kms:CallerAccount": environment.account} | through_s3,
            "StringLike": _objects(*_arns(names.bucket("data"))),
            "ArnLike": {"aws:PrincipalArn": f"arn:aws:iam::{environment.account}:{_FSX_ROLES}"},
        }
        uses = [f"kms:{each}" for each in _FSX_USES]
        statements.append(_allow("FileSystemsThroughS3", {"AWS": "*"}, uses, conditions))
    return [*statements, *_for_services(names)]


def image_key_statements(names: Names, use: str) -> list[Statement]:
    """Return the statements for the repository of one image: the registry uses the key for the
    account, and the build uses it. A role that pulls needs no permission for it.
    """
    account = {"AWS": f"arn:aws:iam::{names.environment.account}:root"}
    through_ecr = {"kms:ViaService": f"ecr.{names.environment.region}.amazonaws.com"}
    lend = ["kms:CreateGrant", "kms:RetireGrant"]
    build = ["kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"]
    builder = {"ArnEquals": {"aws:PrincipalArn": names.role_arn(BUILDERS[use])}}
    return [
        _allow("LendKeyToRegistry", account, lend, {"StringEquals": through_ecr}),
        _allow("UseKeyInBuilds", account, build, builder),
    ]


def organisation_key_policy(names: Names, consumers: Sequence[Consumer]) -> list[Statement]:
    """Return what the owner of the organisation's key adds to its policy."""
    images = [
        statement
        for each in names.each
        for use in each.environment.built_images
        for statement in image_key_statements(each, use)
    ]
    account = {"AWS": f"arn:aws:iam::{names.environment.account}:root"}
    # ECR asks before it makes a repository (its user guide, "Encryption at rest"), and roles do
    look = _allow("SeeKey", account, ["kms:DescribeKey"], {})
    every = [look, *key_statements(names.shared, consumers), *images]
    return [each for number, each in enumerate(every) if each not in every[:number]]


def _for_services(names: Names) -> Iterator[Statement]:
    """Yield the statements of services without a role: SNS developer guide, "Enable compatibility
    between event sources from AWS services and encrypted topics"; CloudWatch Logs user guide,
    "Encrypt log data in CloudWatch Logs using AWS Key Management Service".
    """
    own_account = {"StringEquals": {"aws:SourceAccount": names.environment.account}}
    for service in PUBLISHERS:
        sid = f"{service.partition('.')[0].capitalize()}PublishesEncrypted"
        actions = ["kms:Decrypt", "kms:GenerateDataKey*"]
        yield _allow(sid, {"Service": service}, actions, own_account)
    groups = {"kms:EncryptionContext:aws:logs:arn": names.arn("logs", "log-group:*")}
    logs = {"Service": f"logs.{names.environment.region}.amazonaws.com"}
    yield _allow("LogsEncrypts", logs, _LOGS_USES, {"ArnLike": groups})


def _arns(bucket: str, files: str = "*") -> tuple[str, str]:
    return f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/{files}"


def _objects(*arns: str) -> Statement:
    return {"kms:EncryptionContext:aws:s3:arn": [*arns]}


def _allow(sid: str, principal: Statement, actions: list[str], conditions: Statement) -> Statement:
    statement: Statement = {"Sid": sid, "Effect": "Allow", "Principal": principal}
    statement |= {"Action": actions, "Resource": "*"}
    return statement | ({"Condition": conditions} if conditions else {})
