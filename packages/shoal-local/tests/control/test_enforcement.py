"""Requests of roles to an emulator with --enforce-iam, and the refusals of each service."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config

from local_kit.control import Account, allow, eventually, refused, running, unique
from local_kit.sagemaker_account import Account as JobsAccount
from local_kit.tables import rows
from shoal_local.testing import ACCOUNT_ID, REGION

ROOT_ARN = f"arn:aws:iam::{ACCOUNT_ID}:root"
KEY_POLICY = allow("kms:*", Principal={"AWS": ROOT_ARN})


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with running(tmp_path_factory.mktemp("strict"), "--enforce-iam") as account:
        yield account


@pytest.fixture(scope="module")
def bucket(strict: Account) -> str:
    strict.client("s3").create_bucket(Bucket="data")
    strict.client("s3").put_object(Bucket="data", Key="in/digits", Body=b"7")
    return "data"


def role(account: Account, *policies: dict[str, Any], service: str = "", **more: str) -> str:
    """Create a role that the account's root, or a service, may assume, with these policies."""
    principal = {"Service": service} if service else {"AWS": ROOT_ARN}
    return account.role(principal, *policies, **more)


def test_a_role_may_do_what_its_policy_allows_and_nothing_else(
    strict: Account, bucket: str
) -> None:
    s3 = strict.as_role("s3", role(strict, allow("s3:GetObject", f"arn:aws:s3:::{bucket}/in/*")))
    assert s3.get_object(Bucket=bucket, Key="in/digits")["Body"].read() == b"7"
    code, message = refused(s3.get_object, Bucket=bucket, Key="out/digits")
    assert code == "AccessDenied"
    assert message.endswith(
        'is not authorized to perform: s3:GetObject on resource: "arn:aws:s3:::data/out/digits" '
        "because no identity-based policy allows the s3:GetObject action"
    )


def test_a_role_reads_the_secrets_that_its_policy_names_and_no_others(strict: Account) -> None:
    root, names = strict.client("secretsmanager"), [unique("team/token"), unique("team/other")]
    for name in names:
        root.create_secret(Name=name, SecretString=f"value of {name}")
    arn = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT_ID}:secret:{names[0]}-??????"
    reading = role(strict, allow("secretsmanager:GetSecretValue", arn))
    reader = strict.as_role("secretsmanager", reading)
    assert reader.get_secret_value(SecretId=names[0])["SecretString"] == f"value of {names[0]}"
    for refused_name in (names[1], "not-there"):
        code, message = refused(reader.get_secret_value, SecretId=refused_name)
        assert code == "AccessDeniedException"
        assert "secretsmanager:GetSecretValue" in message
    assert refused(reader.describe_secret, SecretId=names[0])[0] == "AccessDeniedException"
    assert "value of" not in (strict.state_dir / "requests.jsonl").read_text()


def test_a_roles_tags_decide(strict: Account) -> None:
    own = {"StringEquals": {"aws:ResourceTag/team": "blue"}}
    iam = strict.as_role("iam", role(strict, allow("iam:DeleteRole", Condition=own)))
    names = {team: role(strict).rpartition("/")[2] for team in ("blue", "red")}
    for team, name in names.items():
        strict.client("iam").tag_role(RoleName=name, Tags=[{"Key": "team", "Value": team}])
    assert refused(iam.delete_role, RoleName=names["red"])[0] == "AccessDenied"
    iam.delete_role(RoleName=names["blue"])


@pytest.mark.parametrize(
    ("service", "query", "operation", "body"),
    [
        ("secretsmanager", "SecretId=victim", "get_secret_value", {"SecretId": "own"}),
        ("ssm", "Name=/victim", "get_parameter", {"Name": "/own"}),
        ("scheduler", "GroupName=victim&a=/x", "create_schedule_group", {"Name": "own"}),
    ],
)
def test_a_url_says_nothing_that_the_policies_were_not_asked_about(
    strict: Account, service: str, query: str, operation: str, body: dict[str, Any]
) -> None:
    """moto prefers what is in the URL to what is in the body."""

    def smuggle(request: Any, **_: Any) -> None:
        request.url += f"?{query}"

    client = strict.as_role(service, role(strict, allow(f"{service}:*")))
    client.meta.events.register(f"before-sign.{service}", smuggle)
    code, message = refused(getattr(client, operation), **body)
    assert (code, "in its URL" in message) == ("ValidationException", True)


def test_a_key_may_name_the_roles_at_a_path(strict: Account) -> None:
    """As the data key admits the roles that FSx makes for its file systems."""
    condition = {"ArnLike": {"aws:PrincipalArn": f"arn:aws:iam::{ACCOUNT_ID}:role/team/*"}}
    admitted = allow("kms:DescribeKey", Principal={"AWS": "*"}, Condition=condition)["Statement"]
    policy = {**KEY_POLICY, "Statement": [*KEY_POLICY["Statement"], *admitted]}
    key = strict.client("kms").create_key(Policy=json.dumps(policy))["KeyMetadata"]["KeyId"]
    own = strict.role({"AWS": ROOT_ARN}, Path="/team/")
    named, other = (strict.as_role("kms", arn) for arn in (own, role(strict)))
    assert named.describe_key(KeyId=key)["KeyMetadata"]["KeyId"] == key
    assert refused(other.describe_key, KeyId=key)[0] == "AccessDeniedException"


def test_what_is_done_with_a_role_is_asked_with_its_path(strict: Account) -> None:
    theirs = strict.role({"AWS": ROOT_ARN}, Path="/team/")
    maker = role(strict, allow("iam:PutRolePolicy", f"arn:aws:iam::{ACCOUNT_ID}:role/team/*"))
    iam, policy = strict.as_role("iam", maker), json.dumps(allow("s3:ListBucket"))
    iam.put_role_policy(RoleName=theirs.rpartition("/")[2], PolicyName="own", PolicyDocument=policy)
    other = {"RoleName": maker.rpartition("/")[2], "PolicyName": "own", "PolicyDocument": policy}
    assert refused(iam.put_role_policy, **other)[0] == "AccessDenied"


def test_a_listing_is_limited_by_its_prefix(strict: Account, bucket: str) -> None:
    strict.client("s3").put_object(Bucket=bucket, Key="listed/one", Body=b"")
    condition = {"StringLike": {"s3:prefix": "listed/*"}}
    s3 = strict.as_role(
        "s3", role(strict, allow("s3:ListBucket", f"arn:aws:s3:::{bucket}", Condition=condition))
    )
    assert s3.list_objects_v2(Bucket=bucket, Prefix="listed/")["KeyCount"] == 1
    assert refused(s3.list_objects_v2, Bucket=bucket, Prefix="")[0] == "AccessDenied"


def test_a_refused_upload_is_read_to_its_end_so_that_the_connection_can_be_used_again(
    strict: Account, bucket: str
) -> None:
    s3 = strict.as_role("s3", role(strict, allow("s3:PutObject", f"arn:aws:s3:::{bucket}/in/*")))
    for _ in range(3):
        large = {"Bucket": bucket, "Key": "out/large", "Body": b"x" * 300_000}
        assert refused(s3.put_object, **large)[0] == "AccessDenied"
        s3.put_object(Bucket=bucket, Key="in/small", Body=b"x")


def test_each_object_of_a_deletion_is_asked_for(strict: Account, bucket: str) -> None:
    s3 = strict.as_role("s3", role(strict, allow("s3:DeleteObject", f"arn:aws:s3:::{bucket}/in/*")))
    both = {"Objects": [{"Key": "in/never-there"}, {"Key": "out/never-there"}]}
    assert "out/never-there" in refused(s3.delete_objects, Bucket=bucket, Delete=both)[1]


def test_copying_asks_for_the_source_too(strict: Account, bucket: str) -> None:
    s3 = strict.as_role("s3", role(strict, allow("s3:PutObject", f"arn:aws:s3:::{bucket}/in/*")))
    copy = {"Bucket": bucket, "Key": "in/copy", "CopySource": f"{bucket}/in/digits"}
    assert "s3:GetObject" in refused(s3.copy_object, **copy)[1]


def test_a_bucket_policy_denies_what_the_role_may(strict: Account) -> None:
    strict.client("s3").create_bucket(Bucket="closed")
    closed = allow(
        "s3:*",
        "arn:aws:s3:::closed/*",
        Effect="Deny",
        Principal="*",
        Condition={"StringNotLike": {"aws:PrincipalArn": "*:root"}},
    )
    strict.client("s3").put_bucket_policy(Bucket="closed", Policy=json.dumps(closed))
    s3 = strict.as_role("s3", role(strict, allow("s3:*")))
    assert refused(s3.put_object, Bucket="closed", Key="x", Body=b"")[1].endswith(
        "with an explicit deny in a resource-based policy"
    )


def test_an_encrypted_object_needs_its_key(strict: Account) -> None:
    key = strict.client("kms").create_key(Policy=json.dumps(KEY_POLICY))["KeyMetadata"]["Arn"]
    name = strict.bucket()
    at = {"Bucket": name, "Key": "x"}
    encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
    strict.client("s3").put_object(**at, **encryption, Body=b"x")
    through = {
        "kms:ViaService": "s3.us-east-1.amazonaws.com",
        "kms:EncryptionContext:aws:s3:arn": f"arn:aws:s3:::{name}/x",
    }
    decrypt = allow("kms:Decrypt", key, Condition={"StringEquals": through})
    reads = allow("s3:GetObject")
    with_key = strict.as_role("s3", role(strict, reads, decrypt))
    assert with_key.get_object(**at)["ContentLength"] == 1
    with_key.head_object(**at, ChecksumMode="ENABLED")
    without = strict.as_role("s3", role(strict, reads))
    assert without.head_object(**at)["ContentLength"] == 1
    assert refused(without.head_object, **at, ChecksumMode="ENABLED")[0] == "403"
    assert f"kms:Decrypt on resource: {key}" in refused(without.get_object, **at)[1]


def test_a_permissions_boundary_limits_a_role(strict: Account, bucket: str) -> None:
    boundary = strict.client("iam").create_policy(
        PolicyName=unique("boundary"), PolicyDocument=json.dumps(allow("s3:PutObject"))
    )["Policy"]["Arn"]
    s3 = strict.as_role("s3", role(strict, allow("s3:*"), PermissionsBoundary=boundary))
    assert refused(s3.get_object, Bucket=bucket, Key="in/digits")[1].endswith(
        "because no permissions boundary allows the s3:GetObject action"
    )


def test_a_user_is_asked_too(strict: Account) -> None:
    strict.client("iam").create_user(UserName="ada")
    access_key = strict.client("iam").create_access_key(UserName="ada")["AccessKey"]
    s3 = strict.client_of("s3", access_key["AccessKeyId"], access_key["SecretAccessKey"])
    assert refused(s3.list_buckets)[1].startswith(
        f"User: arn:aws:iam::{ACCOUNT_ID}:user/ada is not authorized"
    )


def test_a_group_of_a_users_name_takes_nothing_from_what_the_user_may(strict: Account) -> None:
    iam = strict.client("iam")
    iam.create_user(UserName="grace")
    policy = json.dumps(allow("s3:ListAllMyBuckets"))
    iam.put_user_policy(UserName="grace", PolicyName="list", PolicyDocument=policy)
    iam.create_group(GroupName="grace")
    access_key = iam.create_access_key(UserName="grace")["AccessKey"]
    strict.client_of("s3", access_key["AccessKeyId"], access_key["SecretAccessKey"]).list_buckets()


def test_nobody_may_do_anything(strict: Account, bucket: str) -> None:
    config = Config(signature_version=UNSIGNED, s3={"addressing_style": "path"})
    s3 = boto3.client("s3", region_name=REGION, endpoint_url=strict.endpoint, config=config)
    refusal = refused(s3.get_object, Bucket=bucket, Key="in/digits")
    assert refusal == ("AccessDenied", "Access Denied")


@pytest.mark.parametrize(
    ("service", "method", "arguments", "code", "action"),
    rows(__file__, "cases.yaml", "enforcement"),
)
def test_every_service_refuses_in_its_own_words(
    strict: Account, service: str, method: str, arguments: dict[str, Any], code: str, action: str
) -> None:
    client = strict.as_role(service, role(strict))
    refused_code, message = refused(getattr(client, method), **arguments)
    assert refused_code == code
    assert f"is not authorized to perform: {service}:{action} on resource: " in message


def test_an_operation_of_which_nobody_knows_the_permission_is_refused_by_name(
    strict: Account,
) -> None:
    kms = strict.as_role("kms", role(strict, allow("*")))
    reason = "does not know which IAM action the operation kms:GenerateRandom needs"
    assert reason in refused(kms.generate_random, NumberOfBytes=8)[1]


def test_a_function_may_do_what_its_role_may(strict: Account, bucket: str) -> None:
    source = (
        "import boto3\ndef handler(event, context):\n    return"
        " boto3.client('s3').list_objects_v2(Bucket='data')['KeyCount']\n"
    )
    worker = role(strict, allow("logs:*"), service="lambda.amazonaws.com")
    answer = strict.invoke(strict.function(source, Role=worker))
    assert "not authorized to perform: s3:ListBucket" in answer["payload"]["errorMessage"]


@pytest.mark.parametrize(
    "missing", ["ecr:BatchGetImage", "logs:PutLogEvents", "cloudwatch:PutMetricData"]
)
def test_a_job_whose_role_lacks_what_sagemaker_does_in_its_name_fails_and_names_the_action(
    strict: Account, bucket: str, missing: str
) -> None:
    worker = role(
        strict, allow("*"), allow(missing, Effect="Deny"), service="sagemaker.amazonaws.com"
    )
    sagemaker = strict.client("sagemaker")
    request = training(strict, worker)
    sagemaker.create_training_job(**request)
    describe = partial(sagemaker.describe_training_job, TrainingJobName=request["TrainingJobName"])
    failure = eventually(lambda: describe().get("FailureReason", ""))
    assert failure.startswith("ClientError: AccessDeniedException: User: arn:aws:sts::")
    assert f"is not authorized to perform: {missing} on resource: " in failure


def training(account: Account, worker: str) -> dict[str, Any]:
    jobs = JobsAccount(account.endpoint, account.state_dir)
    return jobs.training(unique("job"), RoleArn=worker)


def test_whoever_starts_a_job_must_be_allowed_to_pass_its_role(strict: Account) -> None:
    worker = role(strict, allow("*"), service="sagemaker.amazonaws.com")
    to_lambda = {"StringEquals": {"iam:PassedToService": "lambda.amazonaws.com"}}
    starter = role(strict, allow("sagemaker:*"), allow("iam:PassRole", worker, Condition=to_lambda))
    create = strict.as_role("sagemaker", starter).create_training_job
    _, message = refused(create, **training(strict, worker))
    assert f"is not authorized to perform: iam:PassRole on resource: {worker}" in message


def test_what_was_asked_is_in_the_request_log(strict: Account, bucket: str) -> None:
    s3 = strict.as_role("s3", role(strict, allow("s3:*")))
    s3.list_objects_v2(Bucket=bucket, Prefix="asked/")
    logged = [each["questions"] for each in strict.requests("ListObjectsV2")]
    (question,) = next(each for each in logged if each[0]["context"]["s3:prefix"] == "asked/")
    assert (question["action"], question["resource"]) == ("s3:ListBucket", "arn:aws:s3:::data")
