"""The doctor against shoal-local: every question has an answer, before anything is spent."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from local_kit.tables import rows, table
from shoal.aws.target import Target
from shoal.launch import launch_of
from shoal.pipelines.checks.demand import quotas
from shoal.settings.capacity import Capacity
from shoal.settings.loading.loader import load_environment
from shoal.settings.sections.scoring import Scoring
from shoal.settings.sections.serving import Autoscaling, Serverless, Serving
from shoal.settings.settings import Environment, Strategy
from shoal.verbs.doctor import Finding, State, capacity_check
from shoal.verbs.doctor.doctor import Doctor
from shoal.verbs.image import Image
from tests.cli.trained import MANIFEST
from tests.repository import ROOT
from tests.verbs.conftest import ACCOUNT


def changed(**sections: Any) -> Environment:
    """Return the environment dev with other values in its sections, or with other sections."""
    environment = load_environment("dev", ROOT)
    for name, value in sections.items():
        if isinstance(value, dict):
            sections[name] = getattr(environment, name).model_copy(update=value)
    return environment.model_copy(update=sections)


def examined(
    target: Target, environment: Environment, built: tuple[Image, ...] = (), **launch: Any
) -> dict[str, Finding]:
    """Return the findings by their questions, of a launch with other values."""
    launched = replace(launch_of(environment), **launch)
    findings = Doctor(target, environment, launched, built).findings()
    return {each.question: each for each in findings}


@contextmanager
def quota(
    target: Target, name: str, value: float, service: str = "sagemaker"
) -> Iterator[dict[str, Any]]:
    """Change a quota for the time of a test."""
    client = target.client("service-quotas")
    pages = client.get_paginator("list_service_quotas").paginate(ServiceCode=service)
    (findings,) = [each for page in pages for each in page["Quotas"] if each["QuotaName"] == name]
    change = {"ServiceCode": service, "QuotaCode": findings["QuotaCode"]}
    client.request_service_quota_increase(**change, DesiredValue=value)
    try:
        yield change
    finally:
        client.request_service_quota_increase(**change, DesiredValue=findings["Value"])


def test_an_environment_that_can_run_has_no_failed_finding(target: Target) -> None:
    findings = examined(target, changed())
    assert {each.state for each in findings.values()} <= {State.OK, State.WARNING}


@pytest.mark.parametrize("job", ["p4d.24xlarge for training", "m5.xlarge for transform"])
def test_a_small_quota_names_the_command_for_more(target: Target, job: str) -> None:
    name = f"ml.{job} job usage"
    with quota(target, name, 0):
        finding = examined(target, changed(scoring=Scoring()))[f"quota: {name}"]
    says = "0, and 1 needed; an increase takes hours to days"
    assert (finding.state, finding.message) == (State.FAILED, says)
    asks = "request-service-quota-increase --service-code sagemaker --quota-code L-"
    assert asks in finding.advice


SCALED = Serving(autoscaling=Autoscaling(min=2, max=6, invocations_per_instance=9))
ON_REQUESTS = Serving(serverless=Serverless(max_concurrency=50))
ON_DISKS = {"instance_type": "ml.m5.xlarge", "custom_mpi_options": "", "volume_size_gb": 2000}
SPOT = {"instance_count": 3, "spot": True, "max_wait_s": 7200}


@pytest.mark.parametrize(
    ("row", "sections", "needed"),
    [
        ("instances of all trainings", {"training": {"instance_count": 8}}, 8),
        ("instances of a training", {"training": {"instance_count": 8}}, 8),
        ("instances of all spot trainings", {"training": SPOT}, 3),
        ("seconds of a training", {"training": {"max_runtime_s": 500_000}}, 500_000),
        ("volume of a training", {"training": ON_DISKS | {"strategy": Strategy.TORCHRUN}}, 2000),
        ("instances of all evaluations", {}, 1),
        ("instances of all scorings", {"scoring": Scoring(instance_count=3)}, 3),
        ("instances of all endpoints", {"serving": SCALED}, 13),
        ("instances of an endpoint", {"serving": SCALED}, 6),
        ("requests of serverless endpoints", {"serving": ON_REQUESTS}, 50),
    ],
)
def test_a_quota_that_the_account_shares_is_compared_with_what_the_file_takes(
    target: Target, row: str, sections: dict[str, Any], needed: int
) -> None:
    name = quotas()[row].name
    for value, state in ((needed, State.OK), (needed - 1, State.FAILED)):
        with quota(target, name, value) as change:
            finding = examined(target, changed(**sections))[f"quota: {name}"]
        assert finding.state is state
        assert finding.message.startswith(f"{value}, and {needed} needed")
    assert quotas()[row].code == change["QuotaCode"]
    assert finding.advice.endswith(f"--quota-code {quotas()[row].code} --desired-value {needed}")


P4D, P4DE = "ml.p4d.24xlarge", "ml.p4de.24xlarge"
PLAN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/p5"
CASES = table(__file__, "cases.yaml")


def test_a_run_is_not_refused_for_a_type_that_it_does_not_take(target: Target) -> None:
    sections = {"training": {"instance_type": P4D, "other_instance_types": (P4DE,)}}
    with quota(target, f"{P4DE} for training job usage", 0):
        capacity_check.refuse_short(target, changed(**sections))


@pytest.mark.parametrize(
    ("plan", "needed", "state", "message"), rows(__file__, "cases.yaml", "plans")
)
def test_a_plan_says_when_it_serves(
    plan: dict[str, Any], needed: dict[str, int], state: str, message: str
) -> None:
    """On 2026-11-27, where an hour of training needs it in the zone use1-az4."""
    job = ("training-job", 3600, datetime(2026, 11, 27, tzinfo=UTC), "use1-az4")
    finding = capacity_check.plan_finding(CASES["active"] | plan, needed, *job)
    assert finding.state is State[state]
    assert message in f"{finding.message}; {finding.advice}"


def test_plans_are_asked_about_and_offerings_where_none_is_named(target: Target) -> None:
    named = examined(target, changed(training={"capacity": Capacity(training_plan_arn=PLAN)}))
    assert named["training plan: p5"].message == "there is no such plan in this account and region"
    question = f"training plans to buy: 1 x {P4D}"
    assert question not in named
    assert "none is offered now" in examined(target, changed())[question].message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (row.name, f"tells no value of that name, and 7 needed; a new account has {row.default}")
        for row in quotas().values()
    ]
    + [("ml.m5.xlarge for endpoint usage", "tells no value of that name, and 7 needed")],
)
def test_a_quota_without_an_applied_value_is_unknown_and_its_default_is_told(
    name: str, message: str
) -> None:
    finding = capacity_check.quota_finding(name, None, 7)
    assert finding.state is State.UNKNOWN
    assert finding.message == f"Service Quotas {message}"


def test_an_account_that_may_build_nothing_is_told(target: Target) -> None:
    row, environment = quotas()["builds at a time"], changed(endpoint={"build_image": None})
    for value, state in ((1, State.OK), (0, State.FAILED)):
        with quota(target, row.name, value, "codebuild") as change:
            assert examined(target, environment)[f"quota: {row.name}"].state is state
    assert change["QuotaCode"] == row.code


def test_a_region_without_room_for_a_vpc_fails_unless_the_environment_has_its_own(
    target: Target,
) -> None:
    vpcs, environment = target.client("ec2").describe_vpcs()["Vpcs"], changed()
    question = "quota: VPCs per Region"
    with quota(target, "VPCs per Region", len(vpcs), "vpc"):
        full = examined(target, environment)[question]
        tags = {"project": environment.project, "environment": environment.name}
        pairs = [{"Key": f"shoal:{key}", "Value": value} for key, value in tags.items()]
        of_vpc = [{"ResourceType": "vpc", "Tags": pairs}]
        ec2 = target.client("ec2")
        created = ec2.create_vpc(CidrBlock="10.99.0.0/16", TagSpecifications=of_vpc)
    with quota(target, "VPCs per Region", len(vpcs) + 1, "vpc"):
        own = examined(target, environment)[question]
    ec2.delete_vpc(VpcId=created["Vpc"]["VpcId"])
    assert (full.state, own.state) == (State.FAILED, State.OK)
    assert "--service-code vpc --quota-code L-F678F1CE" in full.advice


@pytest.mark.parametrize(("sections", "question", "says"), rows(__file__, "cases.yaml", "absent"))
def test_what_the_account_does_not_have_fails(
    target: Target, sections: dict[str, Any], question: str, says: str
) -> None:
    finding = examined(target, changed(**sections))[question]
    assert finding.state is State.FAILED
    assert says in finding.message


def test_what_only_some_executions_choose_is_a_warning(target: Target) -> None:
    training = {"other_instance_types": ("ml.p3dn.24xlarge",), "instance_count": 2}
    environment = changed(training=training)
    name = "ml.p3dn.24xlarge for training job usage"
    with quota(target, name, 1):
        findings = examined(target, environment)
    finding = findings[f"quota: {name}"]
    assert finding.state is State.WARNING
    assert "only executions that choose it" in finding.message
    assert "ml.p3dn.24xlarge in use1-az4" in findings


def test_serving_needs_two_fleets_and_training_where_it_trains(target: Target) -> None:
    staging = load_environment("staging", ROOT).model_copy(update={"account": ACCOUNT})
    training, hosting = "ml.p4d.24xlarge for training job usage", "ml.m5.xlarge for endpoint usage"
    with quota(target, training, 0), quota(target, hosting, 4):
        findings = examined(target, staging)
    serves, trains = findings[f"quota: {hosting}"], findings[f"quota: {training}"]
    assert (serves.state, trains.state) == (State.FAILED, State.WARNING)
    assert serves.message.startswith("4, and 5 needed; ")
    assert trains.message.endswith("(only a training needs it; releases come from dev)")


def test_credentials_of_another_account_end_the_examination(target: Target) -> None:
    (only,) = examined(target, changed(account="999988887777")).values()
    assert (only.state, "belong to account 111122223333" in only.message) == (State.FAILED, True)


class _RegionThatIsOff(BaseHTTPRequestHandler):
    """Answers as STS does where the region is not enabled: it knows no such credentials."""

    def do_POST(self) -> None:
        error = b"<Code>InvalidClientTokenId</Code><Message>invalid token</Message>"
        body = b"<ErrorResponse><Error>" + error + b"</Error></ErrorResponse>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_credentials_that_a_region_does_not_know_may_be_good_elsewhere() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _RegionThatIsOff) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        (only,) = examined(Target("111122223333", "us-east-1", url), changed()).values()
        server.shutdown()
    assert (only.question, only.state) == ("credentials", State.FAILED)
    assert "InvalidClientTokenId" in only.message
    assert "us-east-1 may not be enabled for the account" in only.advice


def image_finding(target: Target, uri: str) -> Finding:
    """Return what the doctor says of this image for training."""
    return examined(target, changed(), image_uri=uri)["image for training"]


def test_an_image_that_is_not_in_its_registry_fails(target: Target) -> None:
    shipped = launch_of(changed()).image_uri
    wrong = shipped.replace(":2.3.0", ":2.3.0-none").replace("-sagemaker", "-nothing")
    assert image_finding(target, wrong).state is State.FAILED
    assert image_finding(target, "public.example/training:1").state is State.UNKNOWN


def test_an_image_of_ones_own_is_found_by_its_tag(target: Target) -> None:
    repository, ecr = f"own-{uuid.uuid4().hex[:8]}", target.client("ecr")
    ecr.create_repository(repositoryName=repository)
    uri = f"{target.account}.dkr.ecr.{target.region}.amazonaws.com/{repository}:v1"
    assert image_finding(target, uri).state is State.FAILED
    ecr.put_image(repositoryName=repository, imageManifest=MANIFEST, imageTag="v1")
    assert image_finding(target, uri).state is State.OK


def test_an_image_to_be_built_is_looked_for_in_its_registry(target: Target) -> None:
    name = f"built-{uuid.uuid4().hex[:8]}"
    parameter = f"/shoal/{name}/images/pytorch-smddp/0a"
    built = Image(target, "training", "pytorch-smddp", parameter, "repository", "project")
    environment = changed(training={"build_image": "pytorch-smddp"})
    missing = examined(target, environment, (built,))["image for training"]
    assert missing.state is State.WARNING
    assert missing.advice.startswith("`shoal deploy dev` builds")
    registry = f"{target.account}.dkr.ecr.{target.region}.amazonaws.com"
    uri = f"{registry}/{name}@sha256:{'0' * 64}"
    target.client("ecr").create_repository(repositoryName=name)
    target.client("ssm").put_parameter(Name=built.parameter, Type="String", Value=uri)
    gone = examined(target, environment, (built,))["image for training"]
    assert "is not in its registry" in gone.message


def test_a_dataset_that_was_uploaded_is_found(target: Target) -> None:
    bucket, s3 = f"shoal-mnist-dev-data-{target.account}-{target.region}", target.client("s3")
    before = examined(target, changed())["dataset"].state
    s3.create_bucket(Bucket=bucket)
    keys = [f"datasets/mnist/{channel}/images" for channel in ("train", "test")]
    s3.put_object(Bucket=bucket, Key=keys[0], Body=b"x")
    half = examined(target, changed())["channel test"]
    s3.put_object(Bucket=bucket, Key=keys[1], Body=b"x")
    after = examined(target, changed())["dataset"].state
    for key in keys:
        s3.delete_object(Bucket=bucket, Key=key)
    s3.delete_bucket(Bucket=bucket)
    assert (before, half.state, after) == (State.WARNING, State.WARNING, State.OK)
    assert half.message == f"nothing is at s3://{bucket}/datasets/mnist/test/ yet"


def test_a_secret_must_be_there(target: Target) -> None:
    client, names = target.client("secretsmanager"), [f"test-{uuid.uuid4().hex}" for _ in range(3)]
    for name in names[:2]:
        client.create_secret(Name=name, SecretString="not looked at")
    client.delete_secret(SecretId=names[1])
    secrets = {f"TOKEN_{number}": name for number, name in enumerate(names)}
    findings = examined(target, changed(training={"secrets": secrets}))
    answers = [findings[f"secret {name}"] for name in names]
    assert [each.state for each in answers] == [State.OK, State.FAILED, State.FAILED]
    assert answers[1].advice == f"aws secretsmanager restore-secret --secret-id {names[1]}"
    assert answers[2].message == "there is no such secret"
