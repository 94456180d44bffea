"""Three accounts in one emulator: they share nothing, but for what the policy on a resource
grants. Two regions in one emulator, and requests that are signed for a region that it has not.
"""

import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local_kit.control import Account, allow, register_version
from local_kit.tables import rows
from shoal_local.errors import EmulatorError
from shoal_local.server import Options
from shoal_local.testing import REGION, emulator

DEV, STAGING, PROD = "111122223333", "222233334444", "333344445555"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker"  # noqa: E501
VERSION = f"arn:aws:sagemaker:{REGION}:{DEV}:model-package/models/1"
PRODUCTION = {"AWS": f"arn:aws:iam::{PROD}:root"}


World = Mapping[str, Account]
"""The emulator's accounts by number."""


@contextmanager
def accounts(state_dir: Path, *options: str) -> Iterator[World]:
    numbers = (DEV, STAGING, PROD)
    options = (*(word for number in numbers for word in ("--account", number)), *options)
    with emulator(state_dir, *options) as running:
        endpoint, folder = running.account.endpoint, running.account.state_dir
        yield {number: Account(endpoint, folder, number) for number in numbers}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with accounts(tmp_path_factory.mktemp("accounts") / "state") as world:
        yield world


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with accounts(tmp_path_factory.mktemp("strict") / "state", "--enforce-iam") as world:
        yield world


@pytest.fixture(scope="module")
def dev(world: World) -> World:
    """Create in dev a key, an encrypted bucket, a registered model, a repository and a queue;
    production may use a part of them.
    """
    s3, kms, sagemaker = (world[DEV].client(name) for name in ("s3", "kms", "sagemaker"))
    key = kms.create_key()["KeyMetadata"]["Arn"]
    s3.create_bucket(Bucket="models-of-dev")
    encryption = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
    rules = [{"ApplyServerSideEncryptionByDefault": encryption, "BucketKeyEnabled": False}]
    s3.put_bucket_encryption(
        Bucket="models-of-dev", ServerSideEncryptionConfiguration={"Rules": rules}
    )
    archive = io.BytesIO()
    tarfile.open(fileobj=archive, mode="w:gz").close()
    for name in ("released/model.tar.gz", "secret/notes"):
        s3.put_object(Bucket="models-of-dev", Key=name, Body=archive.getvalue())
    released = "arn:aws:s3:::models-of-dev/released/*"
    read_policy = allow("s3:GetObject", released, Principal=PRODUCTION)
    s3.put_bucket_policy(Bucket="models-of-dev", Policy=json.dumps(read_policy))
    condition = {"StringLike": {"kms:EncryptionContext:aws:s3:arn": released}}
    lend(kms, key, "kms:Decrypt", Principal=PRODUCTION, Condition=condition)
    container = {"Image": IMAGE, "ModelDataUrl": "s3://models-of-dev/released/model.tar.gz"}
    register(sagemaker, "models", container)
    shared = ["sagemaker:DescribeModelPackage", "sagemaker:CreateModel"]
    share(sagemaker, "models", shared, VERSION)
    world[DEV].client("ecr").create_repository(repositoryName="own-image")
    world[PROD].client("s3").create_bucket(Bucket="prods-own")
    return world


def lend(kms: Any, key: str, action: str, **statement: Any) -> None:
    """Let a statement's principal do an action with a key, besides dev itself."""
    policy = allow("kms:*", Principal={"AWS": f"arn:aws:iam::{DEV}:root"})
    policy["Statement"] += allow(action, **statement)["Statement"]
    kms.put_key_policy(KeyId=key, PolicyName="default", Policy=json.dumps(policy))


def register(sagemaker: Any, group: str, container: Any) -> str:
    """Register an approved version in a new group and return its ARN."""
    sagemaker.create_model_package_group(ModelPackageGroupName=group)
    return register_version(sagemaker, group, container, ModelApprovalStatus="Approved")


def share(sagemaker: Any, group: str, actions: str | list[str], version: str) -> None:
    """Let production do the actions with a version."""
    policy = json.dumps(allow(actions, version, Principal=PRODUCTION))
    sagemaker.put_model_package_group_policy(ModelPackageGroupName=group, ResourcePolicy=policy)


def refusal(call: Callable[..., Any], **arguments: Any) -> str:
    with pytest.raises(ClientError, match=r"AccessDenied|not authorized") as caught:
        call(**arguments)
    return str(caught.value)


def test_an_access_key_is_of_one_account(world: World) -> None:
    for account in (DEV, STAGING, PROD):
        answer = world[account].client("sts").get_caller_identity()
        assert (answer["Account"], answer["Arn"]) == (account, f"arn:aws:iam::{account}:root")


def test_a_key_of_an_account_that_is_not_played_is_refused_by_name(world: World) -> None:
    reason = f"does not play account 999900001111; it plays {DEV}, {STAGING}, {PROD}"
    with pytest.raises(ClientError, match=reason):
        world[DEV].other("999900001111").client("sts").get_caller_identity()


def test_a_client_cannot_choose_another_account_by_motos_own_header(world: World) -> None:
    ec2 = world[PROD].client("ec2", Config())
    ec2.meta.events.register(
        "before-send", lambda request, **_: request.headers.update({"x-moto-account-id": DEV})
    )
    assert ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["OwnerId"] == PROD


@pytest.mark.parametrize(
    ("service", "make", "request_", "look", "key"), rows(__file__, "cases.yaml", "things")
)
def test_what_one_account_has_no_other_lists(
    world: World, service: str, make: str, request_: dict[str, Any], look: str, key: str
) -> None:
    def listed(account: str) -> str:
        answer: Any = getattr(world[account].client(service), look)()
        return str(answer.get(key, ()))

    before = listed(PROD)
    getattr(world[STAGING].client(service), make)(**request_)
    assert "mine" in listed(STAGING)
    assert listed(PROD) == before


def test_a_request_is_written_down_with_the_account_it_acts_in(dev: World) -> None:
    dev[PROD].client("sagemaker").describe_model_package(ModelPackageName=VERSION)
    described = dev[DEV].requests("DescribeModelPackage")
    assert DEV in [line["account"] for line in described if PROD in line["caller"]]


RELEASED = {"Bucket": "models-of-dev", "Key": "released/model.tar.gz"}


@pytest.mark.parametrize(
    ("account", "service", "operation", "request_", "words"),
    rows(__file__, "cases.yaml", "refused"),
)
def test_what_no_policy_grants_another_account_is_refused_and_changes_nothing(
    dev: World, account: str, service: str, operation: str, request_: dict[str, Any], words: str
) -> None:
    with pytest.raises(ClientError, match=words):
        getattr(dev[account].client(service), operation)(**request_)
    models, s3 = dev[DEV].client("sagemaker"), dev[DEV].client("s3")
    (kept,) = models.list_model_packages(ModelPackageGroupName="models")["ModelPackageSummaryList"]
    assert (kept["ModelPackageArn"], kept["ModelApprovalStatus"]) == (VERSION, "Approved")
    policy = models.get_model_package_group_policy(ModelPackageGroupName="models")
    assert VERSION in policy["ResourcePolicy"]
    assert PROD in s3.get_bucket_policy(Bucket="models-of-dev")["Policy"]
    assert b"poisoned" not in s3.get_object(**RELEASED)["Body"].read()
    assert dev[PROD].client("s3").list_objects_v2(Bucket="prods-own")["KeyCount"] == 0


def test_production_reads_the_released_object(dev: World) -> None:
    assert dev[PROD].client("s3").get_object(**RELEASED)["Body"].read()


def test_the_key_decrypts_what_its_policy_names_even_where_the_buckets_policy_would_give_more(
    dev: World,
) -> None:
    s3 = dev[DEV].client("s3")
    before = s3.get_bucket_policy(Bucket="models-of-dev")["Policy"]
    read_all = allow("s3:GetObject", "arn:aws:s3:::models-of-dev/*", Principal=PRODUCTION)
    s3.put_bucket_policy(Bucket="models-of-dev", Policy=json.dumps(read_all))
    try:
        assert "kms:Decrypt" in refusal(
            dev[PROD].client("s3").get_object, Bucket="models-of-dev", Key="secret/notes"
        )
    finally:
        s3.put_bucket_policy(Bucket="models-of-dev", Policy=before)


def test_a_key_of_another_account_is_used_only_as_its_policy_says(dev: World) -> None:
    key = dev[DEV].client("kms").create_key()["KeyMetadata"]["Arn"]
    secret = dev[DEV].client("kms").encrypt(KeyId=key, Plaintext=b"7")["CiphertextBlob"]
    kms = dev[PROD].client("kms")
    refusal(kms.decrypt, KeyId=key, CiphertextBlob=secret)
    lend(dev[DEV].client("kms"), key, "kms:Decrypt", Principal={"AWS": PROD})
    assert kms.decrypt(KeyId=key, CiphertextBlob=secret)["Plaintext"] == b"7"
    refusal(kms.encrypt, KeyId=key, Plaintext=b"8")


def test_a_repository_without_a_policy_is_its_own_accounts_only(dev: World) -> None:
    ecr, place = dev[PROD].client("ecr"), {"registryId": DEV, "repositoryName": "own-image"}
    images: dict[str, Any] = {**place, "imageIds": [{"imageTag": "1"}]}
    refusal(ecr.batch_get_image, **images)
    (statement,) = allow("ecr:BatchGetImage", Principal=PRODUCTION)["Statement"]
    del statement["Resource"]
    dev[DEV].client("ecr").set_repository_policy(
        repositoryName="own-image", policyText=json.dumps({"Statement": [statement]})
    )
    assert ecr.batch_get_image(**images)["failures"][0]["failureCode"] == "ImageNotFound"
    refusal(ecr.describe_images, **place)


def test_a_queue_is_meant_by_the_account_in_its_url(dev: World) -> None:
    url = dev[DEV].client("sqs").create_queue(QueueName="of-dev")["QueueUrl"]
    dev[PROD].client("sqs").create_queue(QueueName="of-dev")
    refusal(dev[PROD].client("sqs").send_message, QueueUrl=url, MessageBody="hello")


def test_production_makes_a_model_of_the_version_that_it_may_use(dev: World) -> None:
    role = dev[PROD].role({"Service": "sagemaker.amazonaws.com"})
    sagemaker = dev[PROD].client("sagemaker")
    model = sagemaker.create_model(
        ModelName="served", ExecutionRoleArn=role, PrimaryContainer={"ModelPackageName": VERSION}
    )
    assert model["ModelArn"] == f"arn:aws:sagemaker:{REGION}:{PROD}:model/served"


def test_a_model_of_a_version_takes_more_than_the_right_to_read_it(dev: World) -> None:
    role = dev[PROD].role({"Service": "sagemaker.amazonaws.com"})
    owner = dev[DEV].client("sagemaker")
    version = owner.describe_model_package(ModelPackageName=VERSION)["InferenceSpecification"]
    arn = register(owner, "read-only", version["Containers"][0])
    share(owner, "read-only", "sagemaker:DescribeModelPackage", arn)
    sagemaker = dev[PROD].client("sagemaker")
    assert sagemaker.describe_model_package(ModelPackageName=arn)
    container = {"ModelPackageName": arn}
    assert "sagemaker:CreateModel" in refusal(
        sagemaker.create_model, ModelName="x", ExecutionRoleArn=role, PrimaryContainer=container
    )


@pytest.mark.parametrize(("trusted", "strangers"), [(STAGING, [PROD]), (DEV, [STAGING, PROD])])
def test_a_role_is_assumed_by_the_account_that_it_trusts_and_by_no_other(
    world: World, trusted: str, strangers: list[str]
) -> None:
    role = world[DEV].role({"AWS": f"arn:aws:iam::{trusted}:root"})
    assert world[trusted].as_role("sts", role).get_caller_identity()["Account"] == DEV
    for stranger in strangers:
        refusal(world[stranger].as_role, service="sts", role_arn=role)


def test_with_policies_enforced_both_accounts_must_allow(strict: World) -> None:
    target = strict[DEV].role({"AWS": f"arn:aws:iam::{STAGING}:root"})
    idle = strict[STAGING].role({"AWS": f"arn:aws:iam::{STAGING}:root"})
    able = strict[STAGING].role(
        {"AWS": f"arn:aws:iam::{STAGING}:root"}, allow("sts:AssumeRole", target)
    )
    without, with_ = (strict[STAGING].as_role("sts", role) for role in (idle, able))
    further = {"RoleArn": target, "RoleSessionName": "further"}
    assert "identity-based policy" in refusal(without.assume_role, **further)
    session = with_.assume_role(**further)
    assert session["AssumedRoleUser"]["Arn"].split(":")[4] == DEV


@pytest.mark.parametrize(
    ("more", "option"),
    [
        ({"others": (PROD, DEV)}, f"--account {DEV}"),
        ({"other_regions": (REGION,)}, f"--region {REGION}"),
    ],
)
def test_an_account_or_a_region_that_is_named_twice_is_one_sentence(
    tmp_path: Path, more: dict[str, Any], option: str
) -> None:
    with pytest.raises(EmulatorError, match=f"{option} is given twice"):
        Options(tmp_path, DEV, REGION, **more)


REGIONS = ("us-east-1", "eu-west-1")
HOME, AWAY = REGIONS
OPTIONS = ("--region", HOME, "--region", AWAY)


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("sagemaker", "list_models"),
        ("cloudformation", "describe_stacks"),
        ("lambda", "list_functions"),
        ("scheduler", "list_schedules"),
        ("fsx", "describe_file_systems"),
        ("events", "list_rules"),
        ("cloudwatch", "describe_alarms"),
        ("logs", "describe_log_groups"),
    ],
)
def test_a_request_for_another_region_does_not_see_this_one(
    account: Account, service: Any, operation: str
) -> None:
    client = account.in_region("eu-west-1").client(service)
    with pytest.raises(ClientError, match="in us-east-1 only, and the request is signed for eu-w"):
        getattr(client, operation)()


def things(account: Account) -> tuple[list[Any], ...]:
    """Return the names of stacks and groups, what functions answer, and the regions in ARNs."""
    stacks = account.client("cloudformation").describe_stacks()["Stacks"]
    groups = account.client("sagemaker").list_model_package_groups()
    functions = account.client("lambda").list_functions()["Functions"]
    (queue,) = account.client("sqs").list_queues(QueueNamePrefix="of-")["QueueUrls"]
    request = {"QueueUrl": queue, "AttributeNames": ["QueueArn"]}
    arn = account.client("sqs").get_queue_attributes(**request)["Attributes"]["QueueArn"]
    return (
        [each["StackName"] for each in stacks],
        [each["ModelPackageGroupName"] for each in groups["ModelPackageGroupSummaryList"]],
        [account.invoke(each["FunctionName"])["payload"] for each in functions],
        [each.split(":")[3] for each in (stacks[0]["StackId"], arn)],
    )


@pytest.fixture(scope="module")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Account]]:
    """One account in two regions: each has a function, a stack and a group that tell it."""
    with emulator(tmp_path_factory.mktemp("regions") / "state", *OPTIONS) as local:
        place = (local.account.endpoint, local.account.state_dir, local.account.number)
        regions = {region: Account(*place, region) for region in REGIONS}
        for region, account in regions.items():
            group = {"ModelPackageGroupName": f"of-{region}"}
            account.function(f"def handler(event, context):\n    return '{region}'\n")
            account.stack({"Queue": {"Type": "AWS::SQS::Queue"}}, f"of-{region}")
            account.client("sagemaker").create_model_package_group(**group)
        yield regions


@pytest.mark.parametrize("region", REGIONS)
def test_each_region_has_its_own_things(regions: dict[str, Account], region: str) -> None:
    named = [f"of-{region}"]
    assert things(regions[region]) == (named, named, [region], [region] * 2)


def test_roles_and_their_sessions_are_those_of_every_region(regions: dict[str, Account]) -> None:
    role = regions[AWAY].role({"AWS": regions[AWAY].number})
    request = {"RoleArn": role, "RoleSessionName": "tests"}
    credentials = regions[HOME].client("sts").assume_role(**request)["Credentials"]
    keys = ("AccessKeyId", "SecretAccessKey", "SessionToken")
    away = regions[AWAY].client_of("sts", *(credentials[key] for key in keys))
    assert away.get_caller_identity()["Arn"].endswith("/tests")


def test_a_buckets_name_is_taken_everywhere_and_its_events_stay_in_its_region(
    regions: dict[str, Account],
) -> None:
    for account in regions.values():
        url, arn = account.open_queue()
        account.client("events").put_rule(Name="s3", EventPattern='{"source": ["aws.s3"]}')
        account.client("events").put_targets(Rule="s3", Targets=[{"Id": "1", "Arn": arn}])
    s3 = regions[AWAY].client("s3")
    s3.create_bucket(Bucket="away", CreateBucketConfiguration={"LocationConstraint": AWAY})
    s3.put_bucket_notification_configuration(
        Bucket="away", NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    s3.put_object(Bucket="away", Key="one", Body=b"1")
    (event,) = regions[AWAY].received(url)
    assert (event["region"], event["detail"]["object"]["key"]) == (AWAY, "one")
    with pytest.raises(ClientError, match="BucketAlready"):
        regions[HOME].client("s3").create_bucket(Bucket="away")


def test_a_third_region_is_refused_with_those_that_there_are(regions: dict[str, Account]) -> None:
    third = regions[HOME].in_region("ap-south-1")
    with pytest.raises(ClientError, match=r"in us-east-1, eu-west-1 only, .* for ap-south-1"):
        third.client("sagemaker").list_models()
