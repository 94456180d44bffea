"""Who makes a request: signatures of somebody who has not the secret, sessions, who may assume
which role, and what is written down of it.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account, refused, send, unique
from local_kit.tables import table
from shoal_local.testing import REGION

FORM = b"Action=GetCallerIdentity&Version=2011-06-15"
FORM_TYPE = {"Content-Type": "application/x-www-form-urlencoded"}
NOBODYS = "AKIAIOSFODNN7EXAMPLE"
ROOT_ARN = "arn:aws:iam::111122223333:root"


def code_of(request: Callable[..., Any], **parameters: Any) -> str:
    """Return the code of the refusal."""
    return refused(request, **parameters)[0]


@pytest.mark.parametrize(
    ("key", "service", "operation", "code"),
    [
        (NOBODYS, "sts", "get_caller_identity", "InvalidClientTokenId"),
        (NOBODYS, "lambda", "list_functions", "InvalidClientTokenId"),
        (NOBODYS, "sagemaker", "list_pipelines", "InvalidClientTokenId"),
        (NOBODYS, "ec2", "describe_vpcs", "InvalidClientTokenId"),
        (NOBODYS, "s3", "list_buckets", "InvalidAccessKeyId"),
        ("", "sts", "get_caller_identity", "SignatureDoesNotMatch"),
        ("", "s3", "list_buckets", "SignatureDoesNotMatch"),
    ],
)
def test_a_key_of_nobody_and_the_roots_without_its_secret_are_refused(
    account: Account, key: str, service: str, operation: str, code: str
) -> None:
    client = account.client_of(service, key or account.key, "made-up")
    assert code_of(getattr(client, operation)) == code


def test_a_stranger_makes_neither_role_nor_function(account: Account) -> None:
    name = unique("strangers")
    iam = account.client_of("iam", account.key, "Signature=0")
    code_of(iam.create_role, RoleName=name, AssumeRolePolicyDocument="{}")
    roles = [role["RoleName"] for role in account.client("iam").list_roles()["Roles"]]
    assert name not in roles


@pytest.mark.parametrize(
    ("method", "path", "headers", "code"),
    [
        ("POST", "/", FORM_TYPE, "MissingAuthenticationToken"),
        ("PUT", "/strangers-bucket", {}, "AccessDenied"),
        (
            "GET",
            "/?X-Amz-Credential=AKIA/20260101/us-east-1/s3/aws4_request",
            {},
            "no presigned URLs",
        ),
    ],
)
def test_an_unsigned_request_is_refused(
    account: Account, method: str, path: str, headers: dict[str, str], code: str
) -> None:
    status, text = send(account, method, path, headers, FORM if method == "POST" else b"")
    assert (status, code in text) == (403, True), text


def test_a_request_that_was_changed_after_it_was_signed_is_refused(account: Account) -> None:
    headers = {**account.signed("POST", "/", "sts", FORM, FORM_TYPE), **FORM_TYPE}
    assert send(account, "POST", "/", headers, FORM)[0] == 200
    for changed in (
        send(account, "POST", "/", headers, FORM.replace(b"GetCaller", b"GetKaller")),
        send(account, "POST", "/?Action=More", headers, FORM),
        send(account, "POST", "/", {**headers, "Host": "127.0.0.1"}, FORM),
        send(account, "POST", "/", {**headers, "Content-Type": "text/plain"}, FORM),
    ):
        assert changed[0] == 403, changed


def test_an_objects_bytes_must_be_those_that_were_signed(account: Account) -> None:
    account.client("s3").create_bucket(Bucket="signed-bytes")
    headers = account.signed("PUT", "/signed-bytes/key", "s3", b"honest")
    status, text = send(account, "PUT", "/signed-bytes/key", headers, b"forged")
    assert (status, "XAmzContentSHA256Mismatch" in text) == (400, True)


def test_an_old_signature_is_refused(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: yesterday)
    sts, s3 = account.client("sts"), account.client("s3")
    assert code_of(sts.get_caller_identity) == "SignatureDoesNotMatch"
    assert code_of(s3.list_buckets) == "RequestTimeTooSkewed"


def test_a_session_needs_its_secret_and_its_token(account: Account) -> None:
    role = account.role({"AWS": ROOT_ARN})
    assumed = account.client("sts").assume_role(RoleArn=role, RoleSessionName="tests")
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
    key, secret, token = (assumed["Credentials"][name] for name in names)
    arn = f"arn:aws:sts::111122223333:assumed-role/{role.rpartition('/')[2]}/tests"

    def code(secret: str, token: str | None) -> str:
        return code_of(account.client_of("sts", key, secret, token).get_caller_identity)

    assert account.client_of("sts", key, secret, token).get_caller_identity()["Arn"] == arn
    assert code("made-up", token) == "SignatureDoesNotMatch"
    assert (code(secret, None), code(secret, "other")) == ("InvalidClientTokenId",) * 2
    s3 = account.client_of("s3", key, secret, "other")
    assert code_of(s3.list_buckets) == "InvalidToken"


def test_a_users_key_counts_while_it_is_active(account: Account) -> None:
    iam, name = account.client("iam"), unique("user")
    iam.create_user(UserName=name)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    sts = account.client_of("sts", key["AccessKeyId"], key["SecretAccessKey"])
    assert sts.get_caller_identity()["Arn"].endswith(f":user/{name}")
    iam.update_access_key(UserName=name, AccessKeyId=key["AccessKeyId"], Status="Inactive")
    assert code_of(sts.get_caller_identity) == "InvalidClientTokenId"


def test_credentials_that_would_be_the_same_for_everybody_are_not_given(account: Account) -> None:
    sts = account.client("sts")
    assert code_of(sts.get_session_token) == "UnknownOperationException"


def test_chunks_that_are_signed_one_by_one_are_refused(account: Account) -> None:
    """No client that is listed sends them, and unverified they are not taken."""
    payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
    headers = account.signed("PUT", "/signed-chunks/key", "s3", payload=payload)
    status, text = send(account, "PUT", "/signed-chunks/key", headers)
    assert (status, payload in text) == (501, True)


def test_boto3_signs_odd_names_as_the_emulator_does(account: Account) -> None:
    account.client("s3").create_bucket(Bucket="odd-names")
    for key in ("a b+c/ü", "..//x", "100%", "a?b&c=d", "~-_.!*'()"):
        account.client("s3").put_object(Bucket="odd-names", Key=key, Body=b"x")
        got = account.client("s3").get_object(Bucket="odd-names", Key=key)
        assert got["Body"].read() == b"x"
    functions = account.client("lambda")
    arn = f"arn:aws:lambda:{REGION}:{account.number}:function:none"
    assert code_of(functions.get_function, FunctionName=arn) == "ResourceNotFoundException"


def test_a_role_is_not_assumed_that_is_not_there_or_trusts_a_service_only(account: Account) -> None:
    with pytest.raises(ClientError, match=r"AccessDenied.*the role does not exist"):
        account.as_role("sts", "arn:aws:iam::111122223333:role/nobody")
    with pytest.raises(ClientError, match="its trust policy does not allow this principal"):
        account.as_role("sts", account.role({"Service": "sagemaker.amazonaws.com"}))


def test_a_session_may_assume_a_role_that_trusts_its_role(account: Account) -> None:
    first = account.role({"AWS": ROOT_ARN})
    second = account.role({"AWS": first})
    session = account.as_role("sts", first).assume_role(RoleArn=second, RoleSessionName="further")
    assert session["AssumedRoleUser"]["Arn"].endswith("/further")


@pytest.mark.parametrize(
    ("operation", "more"),
    [
        ("create_role", {"AssumeRolePolicyDocument": "{}"}),
        ("put_role_permissions_boundary", {}),
    ],
)
def test_a_boundary_that_is_not_there_is_refused(
    account: Account, operation: str, more: dict[str, str]
) -> None:
    role_name = account.role({"AWS": ROOT_ARN}).rpartition("/")[2]
    boundary = {"PermissionsBoundary": "arn:aws:iam::111122223333:policy/not-there"}
    with pytest.raises(ClientError, match=r"NoSuchEntity.*policy/not-there does not exist"):
        getattr(account.client("iam"), operation)(RoleName=role_name, **boundary, **more)


def test_a_request_is_written_down_with_caller_parameters_and_status(account: Account) -> None:
    role = account.role({"AWS": ROOT_ARN})
    with pytest.raises(ClientError):
        account.as_role("s3", role).get_object(Bucket="never-made", Key="digits/7")
    requests = account.requests("GetObject")
    entry = next(each for each in requests if each["parameters"].get("Bucket") == "never-made")
    assert entry["caller"].endswith("/tests")
    known = (entry["service"], entry["parameters"]["Key"], entry["status"])
    assert known == ("s3", "digits/7", 404)


def test_payloads_are_not_written_down(account: Account) -> None:
    account.function("SECRET = 'very secret source'\n")
    written = [str(entry["parameters"]) for entry in account.requests("CreateFunction")]
    assert written
    assert not any("ZipFile" in each for each in written)


@pytest.mark.parametrize(
    "row",
    table(__file__, "cases.yaml")["not_emulated"],
    ids=lambda row: row["operation"],
)
def test_what_is_not_emulated_is_refused_by_name(account: Account, row: dict[str, Any]) -> None:
    """Moto would answer some of it with a success that nothing stands behind."""
    with pytest.raises(ClientError, match=row["reason"]):
        getattr(account.client(row["service"]), row["operation"])(**row["parameters"])


def test_motos_own_control_panel_is_closed(account: Account) -> None:
    with pytest.raises(HTTPError, match="404"):
        urlopen(f"{account.endpoint}/moto-api/reset", data=b"")
