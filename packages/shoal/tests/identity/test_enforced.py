"""Roles live, with policies enforced: the teardown's with scaled endpoints, jobs' with a bucket of
another account, and a hostile training job's.
"""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account as ControlAccount
from local_kit.control import allow, make_role, put_policies, running
from local_kit.hosted import GOOD_MODEL, configure, deploy, settled
from local_kit.sagemaker_account import Account, until
from shoal.aws.target import Target
from shoal.constructs.teardown import SCALED
from shoal.settings.external_data import grants
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.channels import PlacedChannel
from shoal.settings.settings import Environment
from shoal.verbs.doctor import State
from shoal.verbs.doctor.doctor import external_findings
from shoal_local.testing import LocalAccount, emulator
from tests.functions.invocation import Outcome, invoke, session_of
from tests.identity.permissions import recorded, without
from tests.identity.templates import Templates, synthesised
from tests.repository import ROOT

NAMES = Names(load_environment("dev", ROOT))
ACCOUNT, REGION = NAMES.environment.account, NAMES.environment.region
NAMELESS = f"{NAMES.pipeline}-x9"
ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}"
TEARDOWN, TEARDOWN_ARN = NAMES.role("teardown"), NAMES.role_arn("teardown")
TAGS = [{"Key": "shoal:pipeline", "Value": NAMES.pipeline}]


@dataclass(frozen=True)
class Scaled:
    """An emulator that applies policies, with the teardown role as the stack creates it, and the
    name of what an execution makes.
    """

    account: Account
    endpoint: str

    def tear_down(self) -> Outcome:
        """Call the function with a session of its role."""
        execution = f"{NAMES.pipeline_arn}/execution/{self.endpoint.rpartition('-')[2]}"
        credentials = session_of(self.account.client("sts"), TEARDOWN_ARN)
        return invoke(
            "teardown",
            {"pipeline_execution_arn": execution},
            endpoint_url=self.account.endpoint,
            environment=credentials | {"PIPELINE_NAME": NAMES.pipeline},
            module="teardown",
        )

    def actions(self) -> set[str]:
        """Return the actions that IAM was asked about for the role."""
        run = recorded(self.account.state_dir / "requests.jsonl", NAMES.role(""))
        return {question.action for question in run.questions[TEARDOWN].values()}


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory, dev: Templates) -> Iterator[Scaled]:
    with running(tmp_path_factory.mktemp("scaled"), "--enforce-iam") as emulator:
        account = Account.at(emulator)
        put_policies(account.client("iam"), "jobs", {"all": allow("*")})
        policies = dev.identity_policies()[TEARDOWN]
        make_role(account.client("iam"), TEARDOWN, {"AWS": ACCOUNT}, policies)
        yield Scaled(account, f"{NAMES.pipeline}-abcdefghijkl")


@pytest.fixture
def standing(scaled: Scaled) -> Iterator[Scaled]:
    """The same with a scaled endpoint of an execution, and none of it afterwards."""
    account = scaled.account
    standing = Scaled(account, f"{NAMES.pipeline}-{secrets.token_hex(6)}")
    _create(standing)
    yield standing
    assert standing.tear_down().error == ""
    look = account.sagemaker.list_endpoints
    until(look, lambda found: not found["Endpoints"])


def _create(scaled: Scaled) -> None:
    """Create an endpoint with the definition's tag and a scalable target, and a configuration that
    only its tags attribute.
    """
    account, name = scaled.account, scaled.endpoint
    deploy(account, name, GOOD_MODEL)
    for kind in ("model", "endpoint-config", "endpoint"):
        account.sagemaker.add_tags(ResourceArn=f"{ARN}:{kind}/{name}", Tags=TAGS)
    settled(account, name)
    execution = {"Key": "shoal:execution", "Value": name.rpartition("-")[2]}
    variants = account.sagemaker.describe_endpoint_config(EndpointConfigName=name)[
        "ProductionVariants"
    ]
    account.sagemaker.create_endpoint_config(
        EndpointConfigName=NAMELESS, ProductionVariants=variants, Tags=[*TAGS, execution]
    )
    scope = {"ServiceNamespace": "sagemaker", "ScalableDimension": SCALED[0]}
    account.client("application-autoscaling").register_scalable_target(
        **scope, ResourceId=f"endpoint/{name}/variant/AllTraffic", MinCapacity=1, MaxCapacity=2
    )


def test_an_endpoint_that_is_scaled_is_not_deleted_for_who_may_not_deregister(
    standing: Scaled, dev: Templates
) -> None:
    """The function reports it, instead of taking the endpoint for deleted."""
    with _lacking("StopScaling", standing, dev):
        refused = standing.tear_down()
    assert "application-autoscaling:DeregisterScalableTarget" in refused.error
    found = standing.account.sagemaker.describe_endpoint(EndpointName=standing.endpoint)
    assert found["EndpointStatus"] == "InService"


@contextmanager
def _lacking(sid: str, scaled: Scaled, dev: Templates) -> Iterator[None]:
    """Take one statement from the role of the teardown function for a while."""
    policies, iam = dev.identity_policies()[TEARDOWN], scaled.account.client("iam")
    put_policies(iam, TEARDOWN, {name: without(each, sid) for name, each in policies.items()})
    yield
    put_policies(iam, TEARDOWN, policies)


def test_without_the_right_to_read_tags_what_only_they_attribute_stays_and_the_deleter_says_so(
    standing: Scaled, dev: Templates
) -> None:
    with _lacking("ReadTags", standing, dev):
        done = standing.tear_down()
    assert (done.error, done.result["status"]) == ("", "pending")
    assert "sagemaker:ListTags" in done.log
    name = standing.endpoint
    assert json.loads(done.result["deleted"]) == [
        f"scalable-target/endpoint/{name}/variant/AllTraffic",
        f"endpoint/{name}",
        f"endpoint-config/{name}",
        f"model/{name}",
    ]
    with_its_own_policy = standing.tear_down()
    assert (with_its_own_policy.error, with_its_own_policy.result) == (
        "",
        {"status": "deleted", "deleted": json.dumps([f"endpoint-config/{NAMELESS}"])},
    )
    assert {
        "application-autoscaling:DescribeScalableTargets",
        "application-autoscaling:DeregisterScalableTarget",
        "sagemaker:ListTags",
    } <= standing.actions()


def test_what_a_person_named_alike_and_did_not_tag_is_not_deleted(scaled: Scaled) -> None:
    sagemaker, name = scaled.account.sagemaker, f"{NAMES.pipeline}-experimental"
    configure(scaled.account, name, GOOD_MODEL)
    done = Scaled(scaled.account, name).tear_down()
    assert "AccessDenied" in done.error
    assert sagemaker.describe_endpoint_config(EndpointConfigName=name)["EndpointConfigName"] == name
    sagemaker.delete_endpoint_config(EndpointConfigName=name)
    sagemaker.delete_model(ModelName=name)


OWNER, BUCKET = "444455556666", "lake-of-others"
KEYS = ("digits/train/1", "digits/test/1", "secret/1")
DEV = load_environment("dev", ROOT)


@dataclass(frozen=True)
class Lake:
    """The account of the bucket, and the key of its objects; dev's roles are in another."""

    owner: LocalAccount
    key_arn: str


def with_lake(key: str) -> Environment:
    channels = {
        name: PlacedChannel(uri=f"s3://{BUCKET}/digits/{name}/", account=OWNER, kms_key_arn=key)
        for name in ("train", "test")
    }
    return DEV.model_copy(update={"data": DEV.data.model_copy(update={"channels": channels})})


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("lake")
    options = ("--account", DEV.account, "--account", OWNER, "--enforce-iam")
    with emulator(folder / "state", *options) as running:
        owner = running.account.other(OWNER)
        key = owner.client("kms").create_key()["KeyMetadata"]["Arn"]
        s3, iam = owner.client("s3"), running.account.client("iam")
        s3.create_bucket(Bucket=BUCKET)
        for each in KEYS:
            sealed = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
            s3.put_object(Bucket=BUCKET, Key=each, Body=b"7", **sealed)
        environment = with_lake(key)
        (templates,) = synthesised({"dev": environment}, folder / "cdk.out").values()
        for actor in ("training", "evaluation"):
            name = Names(environment).role(actor)
            root = {"AWS": f"arn:aws:iam::{DEV.account}:root"}
            make_role(iam, name, root, templates.identity_policies()[name])
        yield Lake(owner, key)


def outcome(lake: Lake, actor: str, call: str, key: str) -> str:
    """Return `ok`, or the action that is refused."""
    s3 = lake.owner.other(DEV.account).as_role("s3", Names(DEV).role_arn(actor))
    places: dict[str, dict[str, Any]] = {
        "list_objects_v2": {"Prefix": key},
        "put_object": {"Key": key, "Body": b"6"},
    }
    try:
        getattr(s3, call)(Bucket=BUCKET, **places.get(call, {"Key": key}))
    except ClientError as error:
        return str(error.response["Error"]["Message"]).partition("perform: ")[2].split()[0]
    return "ok"


def give(lake: Lake, *, bucket: bool, key: bool) -> None:
    """Give the bucket and its key the printed policy, or none for others."""
    (grant,) = grants([with_lake(lake.key_arn)])
    s3, kms = lake.owner.client("s3"), lake.owner.client("kms")
    policy = allow("kms:*", Principal={"AWS": f"arn:aws:iam::{OWNER}:root"})
    s3.delete_bucket_policy(Bucket=BUCKET)
    if bucket:
        s3.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps(grant.bucket_policy))
    if key:
        policy["Statement"] += grant.key_policies[lake.key_arn]["Statement"]
    kms.put_key_policy(KeyId=lake.key_arn, PolicyName="default", Policy=json.dumps(policy))


@pytest.mark.parametrize(
    ("bucket", "key", "actor", "call", "path", "said"),
    [
        (False, False, "training", "list_objects_v2", "digits/train/", "s3:ListBucket"),
        (False, False, "training", "get_object", KEYS[0], "s3:GetObject"),
        (False, True, "training", "get_object", KEYS[0], "s3:GetObject"),
        (True, False, "training", "get_object", KEYS[0], "kms:Decrypt"),
        (True, True, "training", "list_objects_v2", "digits/train/", "ok"),
        (True, True, "training", "list_objects_v2", "", "s3:ListBucket"),
        (True, True, "training", "get_object", KEYS[0], "ok"),
        (True, True, "training", "get_object", KEYS[2], "s3:GetObject"),
        (True, True, "training", "put_object", KEYS[0], "s3:PutObject"),
        (True, True, "evaluation", "get_object", KEYS[1], "ok"),
        (True, True, "evaluation", "get_object", KEYS[0], "s3:GetObject"),
    ],
)
def test_a_job_reads_its_channels_where_both_policies_were_given(
    lake: Lake, bucket: bool, key: bool, actor: str, call: str, path: str, said: str
) -> None:
    give(lake, bucket=bucket, key=key)
    assert outcome(lake, actor, call, path) == said


def test_doctor_says_what_it_knows_of_the_bucket_and_what_not(lake: Lake) -> None:
    local = lake.owner.other(DEV.account)
    target = Target(DEV.account, local.region, local.endpoint, local.secret)

    def told(folder: str) -> list[tuple[State, str]]:
        channel = PlacedChannel(uri=f"s3://{folder}/", account=OWNER)
        data = DEV.data.model_copy(update={"channels": {"train": channel}})
        found = external_findings(target, DEV.model_copy(update={"data": data}))
        return [(each.state, each.message.partition(";")[0]) for each in found]

    s3, frankfurt = lake.owner.client("s3"), lake.owner.in_region("eu-central-1").client("s3")
    place = {"LocationConstraint": "eu-central-1"}
    frankfurt.create_bucket(Bucket="lake-elsewhere", CreateBucketConfiguration=place)
    for each in ("lake-elsewhere", BUCKET):
        policy = allow("s3:*", f"arn:aws:s3:::{each}", Principal={"AWS": DEV.account})
        s3.put_bucket_policy(Bucket=each, Policy=json.dumps(policy))
    denied = "you may not list it, which says nothing of the jobs"
    assert told(f"{BUCKET}/digits/train") == [(State.OK, "you may list it, and it has files")]
    assert told(f"{BUCKET}/digits/nothing") == [(State.WARNING, "nothing is there yet")]
    assert told("lake-nowhere/a") == [(State.FAILED, "there is no bucket lake-nowhere")]
    where = "the bucket is in eu-central-1, the jobs are in us-east-1"
    assert told("lake-elsewhere/a") == [(State.FAILED, where)]
    give(lake, bucket=True, key=True)
    assert told(f"{BUCKET}/digits/train") == [(State.UNKNOWN, denied)]


STAGING = Names(load_environment("staging", ROOT))
ARTIFACTS, DATA = NAMES.bucket("artifacts"), NAMES.bucket("data")
ROLES = ("pipeline", "evaluation", "endpoint", "seal", "teardown", "smoke-test")
PACKAGE = NAMES.arn("sagemaker", f"model-package/{NAMES.model_package_group}/1")
EXECUTION = "abcdefghijkl"
OBJECTS = (
    f"evaluation/{EXECUTION}/evaluation.json",
    "models/0/model.tar.gz",
    "captured/x.jsonl",
)
OUTPUT = {"Bucket": ARTIFACTS, "Key": f"training/{EXECUTION}/output/model.tar.gz"}


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory, dev: Templates) -> Iterator[ControlAccount]:
    """Yield an account with dev's buckets, what a pipeline leaves in them, and its roles."""
    numbers = ("--account", NAMES.environment.account, "--account", STAGING.environment.account)
    with running(tmp_path_factory.mktemp("red"), *numbers, "--enforce-iam") as account:
        iam, s3 = account.client("iam"), account.client("s3")
        for actor in ("training", *ROLES):
            make_role(iam, NAMES.role(actor), {"AWS": NAMES.environment.account})
        training = NAMES.role("training")
        put_policies(iam, training, dev.identity_policies()[training])
        for bucket in (ARTIFACTS, DATA):
            s3.create_bucket(Bucket=bucket)
        for key in (*OBJECTS, OUTPUT["Key"]):
            s3.put_object(Bucket=ARTIFACTS, Key=key, Body=b"honest")
        staging = account.other(STAGING.environment.account).client("s3")
        staging.create_bucket(Bucket=STAGING.bucket("artifacts"))
        yield account


def tries() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield service, operation and arguments of each call."""
    for actor in ROLES:
        role = {"RoleArn": NAMES.role_arn(actor), "RoleSessionName": "evil"}
        yield "sts", "assume_role", role
    bootstrap = f"arn:aws:iam::{NAMES.environment.account}:role/cdk-hnb659fds-deploy-role-x"
    yield "sts", "assume_role", {"RoleArn": bootstrap, "RoleSessionName": "evil"}
    yield "iam", "create_user", {"UserName": "evil"}
    policy = {"PolicyName": "evil", "PolicyDocument": "{}", "RoleName": NAMES.role("training")}
    yield "iam", "put_role_policy", policy
    approved = {"ModelPackageArn": PACKAGE, "ModelApprovalStatus": "Approved"}
    yield "sagemaker", "update_model_package", approved
    yield "sagemaker", "start_pipeline_execution", {"PipelineName": NAMES.pipeline}
    yield "sagemaker", "list_models", {}
    yield "sagemaker", "delete_endpoint", {"EndpointName": f"{NAMES.pipeline}-{EXECUTION}"}
    call = {"EndpointName": NAMES.serving_endpoint, "Body": b"{}"}
    yield "sagemaker-runtime", "invoke_endpoint", call
    yield "lambda", "invoke", {"FunctionName": NAMES.function("teardown")}
    for key in OBJECTS:
        yield "s3", "put_object", {"Bucket": ARTIFACTS, "Key": key, "Body": b"forged"}
        yield "s3", "delete_object", {"Bucket": ARTIFACTS, "Key": key}
    for key in OBJECTS[:2]:
        yield "s3", "get_object", {"Bucket": ARTIFACTS, "Key": key}
    yield "s3", "delete_object", OUTPUT
    yield "s3", "list_objects_v2", {"Bucket": ARTIFACTS}
    for key in ("manifests/dev/x.json", "datasets/mnist/train/x"):
        yield "s3", "put_object", {"Bucket": DATA, "Key": key, "Body": b"forged"}
    yield "s3", "list_objects_v2", {"Bucket": STAGING.bucket("artifacts")}
    stream = {"logGroupName": "/aws/sagemaker/TrainingJobs", "logStreamName": "somebodys-job/x"}
    event = {"timestamp": 1, "message": "forged"}
    yield "logs", "put_log_events", stream | {"logEvents": [event]}


@pytest.mark.nightly
@pytest.mark.parametrize(("service", "operation", "arguments"), list(tries()))
def test_a_training_jobs_role_is_refused(
    account: ControlAccount, service: str, operation: str, arguments: dict[str, Any]
) -> None:
    client = account.as_role(service, NAMES.role_arn("training"))
    with pytest.raises(ClientError, match="AccessDenied"):
        getattr(client, operation)(**arguments)


@pytest.mark.nightly
def test_what_it_is_for_it_may_do(account: ControlAccount) -> None:
    """The refusals above are of a role that works."""
    account.as_role("s3", NAMES.role_arn("training")).put_object(**OUTPUT, Body=b"its own")
