"""The doctor asks what the account has already: its bootstrap, and an organisation's roles, key and
bucket.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from local_kit.control import allow, make_role
from local_kit.tables import rows
from shoal.aws.target import Target
from shoal.settings.key_policy import organisation_key_policy
from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import Names
from shoal.verbs.doctor import State
from shoal.verbs.doctor.key_policy import KeyPolicy, Use
from shoal.verbs.doctor.organisation_check import key_findings
from tests.verbs.test_doctor import changed, examined


def make_bucket(target: Target, name: str, **encryption: str) -> None:
    """Create a bucket whose default is this encryption, or none of its own."""
    s3, default = target.client("s3"), {"ApplyServerSideEncryptionByDefault": encryption}
    s3.create_bucket(Bucket=name)
    if encryption:
        rules = {"Rules": [default]}
        s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration=rules)


@contextmanager
def bootstrapped(
    target: Target, version: str = "30", qualifier: str = "hnb659fds", **encryption: str
) -> Iterator[None]:
    """Bootstrap the account as far as the doctor looks; `encryption` is the bucket's default."""
    ssm, name = target.client("ssm"), f"/cdk-bootstrap/{qualifier}/version"
    bucket = f"cdk-{qualifier}-assets-{target.account}-{target.region}"
    ssm.put_parameter(Name=name, Value=version, Type="String", Overwrite=True)
    make_bucket(target, bucket, **encryption)
    try:
        yield
    finally:
        ssm.delete_parameter(Name=name)
        target.client("s3").delete_bucket(Bucket=bucket)


def under(key: str) -> dict[str, str]:
    """Return the encryption of a bucket with a key."""
    return {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}


def key_with_policy(target: Target, *statements: dict[str, Any]) -> str:
    """Return the ARN of a key that its account may manage, with more statements."""
    policy = allow("kms:*", Principal={"AWS": f"arn:aws:iam::{target.account}:root"})
    policy["Statement"] += statements
    arn: str = target.client("kms").create_key(Policy=json.dumps(policy))["KeyMetadata"]["Arn"]
    return arn


@pytest.mark.parametrize(("version", "state"), [("5", State.FAILED), ("30", State.OK)])
def test_the_bootstrap_must_be_new_enough(target: Target, version: str, state: State) -> None:
    with bootstrapped(target, version):
        assert examined(target, changed())["bootstrap"].state is state


def test_another_qualifier_needs_a_second_bootstrap_or_is_the_organisations(target: Target) -> None:
    environment = changed(organisation={"bootstrap_qualifier": "team1"})
    with bootstrapped(target, qualifier="team1"):
        finding = examined(target, changed())["bootstrap"]
        assert examined(target, environment)["bootstrap"].state is State.OK
    assert finding.state is State.FAILED
    assert "with the qualifier team1 only" in finding.message
    assert "set organisation.bootstrap_qualifier to team1" in finding.advice
    assert "--toolkit-stack-name CDKToolkit-shoal --qualifier hnb659fds" in finding.advice


@pytest.mark.parametrize(
    ("resource", "state"),
    [("role/shoal-*", State.WARNING), ("role/ml/ml-shoal-*", State.OK)],
)
def test_the_bootstraps_role_must_be_allowed_the_organisations_roles(
    target: Target, resource: str, state: State
) -> None:
    iam, own = target.client("iam"), f"arn:aws:iam::{target.account}:"
    name = f"cdk-hnb659fds-cfn-exec-role-{target.account}-{target.region}"
    make_role(iam, name, {"AWS": target.account}, {"roles": allow(["iam:*"], own + resource)})
    environment = changed(organisation={"role_path": "/ml/", "role_prefix": "ml-"})
    finding = examined(target, environment)["roles"]
    iam.delete_role_policy(RoleName=name, PolicyName="roles")
    iam.delete_role(RoleName=name)
    assert (finding.state, f"{own}role/ml/ml-shoal-mnist-dev" in finding.message) == (state, True)


ROLE = "arn:aws:iam::222233334444:role/shoal-mnist-prod-us-east-1-bring"
CONSUMER = Consumer("prod", "222233334444", ROLE)
ACCOUNT = "arn:aws:iam::111122223333"
ROLES = ("shoal-mnist-dev-us-east-1-training", "other")


def deny(action: str = "kms:Decrypt", **others: Any) -> dict[str, Any]:
    statement = {"Sid": "Never", "Effect": "Deny", "Principal": "*", "Resource": "*"}
    return statement | ({} if "NotAction" in others else {"Action": action}) | others


@pytest.mark.parametrize(("others", "state", "says"), rows(__file__, "cases.yaml", "denied"))
def test_the_organisations_key_must_allow_what_plan_prints_and_never_deny_it(
    target: Target, others: list[dict[str, Any]] | None, state: str, says: str
) -> None:
    iam = target.client("iam")
    for role in ROLES:  # a policy names no role that is not there
        make_role(iam, role, {"AWS": target.account})
    statements = []
    if others is not None:
        statements = [*organisation_key_policy(Names(changed()), ())]
        statements += [deny(**each) for each in others]
    arn = key_with_policy(target, *statements)
    for role in ROLES:
        iam.delete_role(RoleName=role)
    finding = examined(target, changed(organisation={"kms_key_arn": arn}))["key"]
    assert (finding.state, says in finding.message) == (State[state], True), finding.message


@pytest.mark.parametrize(("named", "state"), rows(__file__, "cases.yaml", "consumers"))
def test_the_organisations_key_must_allow_the_consumers_that_there_are(
    target: Target, named: list[str], state: str
) -> None:
    consumers = [Consumer("prod", CONSUMER.account, each) for each in named]
    arn = key_with_policy(target, *organisation_key_policy(Names(changed()), consumers))
    (finding,) = key_findings(target, changed(organisation={"kms_key_arn": arn}), [CONSUMER])
    assert finding.state is State[state]
    assert (f"DecryptSealedArchives for {ROLE}" in finding.message) == (state == "FAILED")


@pytest.mark.parametrize(
    ("operator", "role", "allowed"), rows(__file__, "cases.yaml", "conditions")
)
def test_a_key_for_other_roles_of_the_account_is_not_for_ours(
    operator: str, role: str, allowed: bool
) -> None:
    condition = {operator: {"aws:PrincipalArn": f"{ACCOUNT}:role/{role}"}}
    root = {"Effect": "Allow", "Principal": {"AWS": f"{ACCOUNT}:root"}, "Action": "kms:*"}
    use = Use("AWS", f"{ACCOUNT}:root", "kms:Decrypt", roles=f"{ACCOUNT}:role/shoal-mnist-*")
    assert KeyPolicy(({**root, "Condition": condition},)).allows(use) is allowed


@pytest.mark.parametrize("form", ["arn", "id", "alias/lake", "alias-arn", "alias/other"])
def test_a_bucket_under_the_organisations_key_can_be_used_whatever_names_the_key(
    target: Target, form: str
) -> None:
    kms, bucket = target.client("kms"), f"lake-{form.replace('/', '-')}"
    arn = key_with_policy(target)
    aliases = {"alias/lake": arn, "alias/other": key_with_policy(target)}
    for alias, key in aliases.items():
        kms.create_alias(AliasName=alias, TargetKeyId=key)
    names = {"arn": arn, "id": arn.split("/")[-1]}
    names["alias-arn"] = f"arn:aws:kms:{target.region}:{target.account}:alias/lake"
    make_bucket(target, bucket, **under(names.get(form, form)))
    organisation = {"data_bucket": bucket, "kms_key_arn": arn}
    finding = examined(target, changed(organisation=organisation))["data bucket"]
    for alias in aliases:
        kms.delete_alias(AliasName=alias)
    assert (finding.state is State.OK) == (form != "alias/other"), finding.message


@pytest.mark.parametrize(("bucket", "encryption", "says"), rows(__file__, "cases.yaml", "buckets"))
def test_the_organisations_bucket_must_be_one_that_jobs_can_read(
    target: Target, bucket: str, encryption: dict[str, str], says: str
) -> None:
    if encryption:
        make_bucket(target, bucket, **encryption)
    finding = examined(target, changed(organisation={"data_bucket": bucket}))["data bucket"]
    assert says in finding.message
    assert (finding.state is State.OK) == (bucket == "lake-plain")


def test_a_bucket_under_a_key_that_only_the_account_may_use_is_refused(target: Target) -> None:
    """The customer key of the bootstrap itself is fine."""
    key = key_with_policy(target)
    with bootstrapped(target, **under(key)):
        finding = examined(target, changed())["bootstrap"]
    assert finding.state is State.FAILED
    assert f"encrypted with {key}" in finding.message
    assert "role/shoal-mnist-dev-us-east-1-training, " in finding.message
    service = f"s3.{target.region}.amazonaws.com"
    through_s3 = {"kms:CallerAccount": target.account, "kms:ViaService": service}
    actions = ["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey*"]
    condition = {"StringEquals": through_s3}
    (everybody,) = allow(actions, Principal={"AWS": "*"}, Condition=condition)["Statement"]
    kms, alias, denied = target.client("kms"), "alias/bootstrap", [everybody, deny()]
    for statements, state in (([everybody], State.OK), (denied, State.FAILED)):
        kms.create_alias(AliasName=alias, TargetKeyId=key_with_policy(target, *statements))
        with bootstrapped(target, **under(alias)):
            assert examined(target, changed())["bootstrap"].state is state
        kms.delete_alias(AliasName=alias)


def test_a_bootstrap_whose_bucket_has_another_name_is_refused(target: Target) -> None:
    s3, bucket = target.client("s3"), f"cdk-hnb659fds-assets-{target.account}-{target.region}"
    with bootstrapped(target):
        s3.delete_bucket(Bucket=bucket)
        finding = examined(target, changed())["bootstrap"]
        s3.create_bucket(Bucket=bucket)
    says = "bootstrap without --bootstrap-bucket-name"
    assert (finding.state, finding.advice) == (State.FAILED, says)
