"""Pins compared with shoal-local's registry, bucket, image repository and endpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from itertools import cycle
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from botocore.exceptions import ClientError

from shoal.aws.target import Target
from shoal.errors import NotFoundError
from shoal.settings.loading.loader import load_environment
from shoal.settings.loading.release_file import pins_in, text_of
from shoal.settings.names import Names
from shoal.settings.sections.release import Release
from shoal.verbs.promote.release_status import Answer, ReleaseTargets, compare
from tests.cli.conftest import STAGING
from tests.cli.test_promote import pinned, promoted
from tests.cli.trained import MANIFEST, Checkout, Package, Registry
from tests.functions.test_seal_in_parts import composite
from tests.repository import ROOT
from tests.verbs.conftest import ACCOUNT

STATUS = ("release", "status")
ENDPOINT = "shoal-mnist-staging"
OWN = f"s3://shoal-mnist-staging-artifacts/models/{'a' * 64}/model.tar.gz"


def lines(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], *environments: str
) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = checkout.shoal(*STATUS, *environments)
    return code, capsys.readouterr().out.splitlines()


def targets(
    registry: Callable[[], Target],
    serving: Callable[[], Target],
    *,
    pipeline_arn: str = "",
    archive_url: str = "",
    serves: bool = False,
) -> ReleaseTargets:
    """Return where to ask for what staging pins and serves."""
    stack = "shoal-mnist-staging-serving"
    return ReleaseTargets(
        registry, serving, "staging", stack, pipeline_arn, archive_url, serves=serves
    )


@pytest.fixture
def staged(released: Checkout, registry: Registry) -> tuple[Checkout, Package]:
    """Return a checkout whose staging pins a version of its own."""
    package = registry.approved()
    released.merge(promoted(released, package))
    return released, package


def test_what_is_as_pinned_agrees(
    staged: tuple[Checkout, Package], capsys: pytest.CaptureFixture[str]
) -> None:
    checkout, package = staged
    code, output = lines(checkout, capsys, "dev", "staging")
    assert code == 0
    assert f"staging: pins {package.arn}" in output
    assert [line for line in output if not line.startswith("  ok ")] == [
        "dev: pins no release",
        f"staging: pins {package.arn}",
    ]


def test_an_approval_that_was_taken_back_disagrees(
    staged: tuple[Checkout, Package], registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout, package = staged
    registry.judge(package, "Rejected")
    code, output = lines(checkout, capsys, "staging")
    assert code == 1
    assert any(line.startswith("  DIFFERS registry: Rejected") for line in output)


@pytest.fixture
def own_bucket(registry: Registry) -> Iterator[str]:
    """Staging's own bucket, with nothing in it."""
    bucket = Names(load_environment("staging", ROOT)).bucket("artifacts").replace(STAGING, ACCOUNT)
    registry.s3.create_bucket(Bucket=bucket)
    yield bucket
    for each in registry.s3.list_objects_v2(Bucket=bucket).get("Contents", []):
        registry.s3.delete_object(Bucket=bucket, Key=each["Key"])
    registry.s3.delete_bucket(Bucket=bucket)


def bring(registry: Registry, bucket: str, release: Release, content: bytes) -> str:
    """Put an object where staging's own copy of the release lies; return its URL."""
    key = f"models/{release.model_data_sha256}/model.tar.gz"
    registry.s3.put_object(Bucket=bucket, Key=key, Body=content, ChecksumAlgorithm="SHA256")
    return f"s3://{bucket}/{key}"


def test_the_own_copy_of_the_archive_is_compared_by_its_hash(
    staged: tuple[Checkout, Package],
    registry: Registry,
    own_bucket: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkout, package = staged
    evaluated = registry.s3.get_object(
        Bucket=registry.bucket, Key=package.model.removeprefix(f"s3://{registry.bucket}/")
    )["Body"].read()
    url = bring(registry, own_bucket, pinned(checkout), evaluated)
    registry.replace(package.model, b"what is there now is nothing to staging")
    _, output = lines(checkout, capsys, "staging")
    said = f"the own copy has the pinned sha256, {len(evaluated)} bytes"
    assert f"  ok      model data: {said}" in output
    bring(registry, own_bucket, pinned(checkout), b"another")
    code, output = lines(checkout, capsys, "staging")
    assert code == 1
    actual, expected = hashlib.sha256(b"another").hexdigest(), pinned(checkout).model_data_sha256
    assert f"  DIFFERS model data: the sha256 of {url} is {actual}, pinned is {expected}" in output


@pytest.mark.parametrize("own", [b"large", b"another"])
def test_an_own_copy_in_parts_is_compared_by_the_checksum_of_its_parts(
    staged: tuple[Checkout, Package], registry: Registry, own_bucket: str, own: bytes
) -> None:
    release = pinned(staged[0]).model_copy(
        update={"model_data_composite_sha256": composite(b"large")}
    )
    place = {"Bucket": own_bucket, "Key": f"models/{release.model_data_sha256}/model.tar.gz"}
    upload = registry.s3.create_multipart_upload(**place, ChecksumAlgorithm="SHA256")
    place["UploadId"] = upload["UploadId"]
    part = registry.s3.upload_part(**place, PartNumber=1, Body=own, ChecksumAlgorithm="SHA256")
    parts = [{"PartNumber": 1} | {key: part[key] for key in ("ETag", "ChecksumSHA256")}]
    registry.s3.complete_multipart_upload(**place, MultipartUpload={"Parts": parts})
    url = f"s3://{own_bucket}/{place['Key']}"
    places = targets(lambda: registry.target, lambda: registry.target, archive_url=url)
    (answer,) = (
        each
        for each in compare(release, places, "shoal-mnist-staging")
        if each.question == "model data"
    )
    assert (answer.message, answer.agrees) == (
        ("the own copy has the pinned composite sha256, 5 bytes", True)
        if own == b"large"
        else (
            f"the composite sha256 of {url} is {composite(own)}, pinned is {composite(b'large')}",
            False,
        )
    )


@pytest.mark.usefixtures("own_bucket")
def test_an_archive_that_was_not_brought_differs_where_the_release_is_deployed(
    staged: tuple[Checkout, Package], registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout, _ = staged
    _, output = lines(checkout, capsys, "staging")
    assert any(
        "  ok      model data: a deployment will bring it to s3://" in each for each in output
    )
    cloudformation = registry.target.client("cloudformation")
    parameter = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "x"}}
    stack = Names(load_environment("staging", checkout.root)).stack("serving")
    body = json.dumps({"Resources": {"One": parameter}})
    cloudformation.create_stack(StackName=stack, TemplateBody=body)
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName=stack, WaiterConfig={"Delay": 1}
    )
    code, output = lines(checkout, capsys, "staging")
    cloudformation.delete_stack(StackName=stack)
    assert code == 1
    assert any(each.startswith("  DIFFERS model data: s3://") for each in output)


def test_an_image_that_is_gone_disagrees(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    image, repository = registry.own_image()
    released.merge(promoted(released, registry.approved(image=image)))
    registry.target.client("ecr").delete_repository(repositoryName=repository, force=True)
    code, output = lines(released, capsys, "staging")
    assert code == 1
    assert any(line.startswith(f"  DIFFERS image: ECR has no {image}@") for line in output)


def test_a_tag_that_was_moved_is_told_while_the_pinned_digest_is_there(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    image, repository = registry.own_image()
    released.merge(promoted(released, registry.approved(image=image)))
    ecr, manifest = registry.target.client("ecr"), [{"imageDigest": pinned(released).image_digest}]
    ecr.put_image(repositoryName=repository, imageManifest=MANIFEST, imageTag="kept")
    moved = ecr.put_image(
        repositoryName=repository,
        imageManifest=MANIFEST.replace("[]", '[{"digest": "other"}]'),
        imageTag="v1",
    )["image"]["imageId"]
    assert ecr.batch_get_image(repositoryName=repository, imageIds=manifest)["images"]
    code, output = lines(released, capsys, "staging")
    (answer,) = [line for line in output if " image: " in line]
    assert code == 0
    remark = f"the tag v1 was moved to {moved['imageDigest']}, so a deployment may be rolled back"
    assert answer == f"  ok      image: the pinned digest is there; {remark}"


def test_where_nobody_can_be_asked_no_agreement_is_claimed(
    released: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output = lines(released, capsys, "prod")
    assert code == 1
    assert any(
        line.startswith("  unknown live: not known: the emulator plays account 111122223333")
        for line in output
    )


class Serving:
    """An account with one endpoint: every description is of that one."""

    def __init__(
        self,
        url: str | None,
        failure: str,
        stack: str | None,
        image: str = "",
        status: str = "InService",
    ) -> None:
        self._stack, self._image, self._status = stack, image, status
        self._url, self._failure = url, {"FailureReason": failure} if failure else {}

    def client(self, _service: str) -> Serving:
        return self

    in_region = client

    def head_object(self, **_: str) -> None:
        raise ClientError({"Error": {"Code": "403", "Message": "Forbidden"}}, "Asking")

    batch_get_image = head_object
    exceptions = SimpleNamespace(RepositoryNotFoundException=KeyError)

    def describe_endpoint(self, EndpointName: str) -> dict[str, Any]:  # noqa: N803 - AWS's name
        if self._url is None:
            raise ClientError(
                {
                    "Error": {
                        "Code": "ValidationException",
                        "Message": f'Could not find endpoint "{EndpointName}"',
                    }
                },
                "DescribeEndpoint",
            )
        variants = [{"DeployedImages": [{"ResolvedImage": self._image}]}]
        return {
            "EndpointConfigName": "config",
            "EndpointStatus": self._status,
            "ProductionVariants": variants,
            **self._failure,
        }

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803 - AWS's name
        if self._stack is None:
            raise ClientError(
                {
                    "Error": {
                        "Code": "ValidationError",
                        "Message": f"Stack {StackName} does not exist",
                    }
                },
                "DescribeStacks",
            )
        return {"Stacks": [{"StackStatus": self._stack}]}

    def describe_endpoint_config(self, **_: str) -> dict[str, Any]:
        return {"ProductionVariants": [{"ModelName": "model"}]}

    def describe_model(self, **_: str) -> dict[str, Any]:
        return {"Containers": [{"ModelDataUrl": self._url}]}


def nobody() -> Target:
    raise NotFoundError("there is no registry here")


def live(
    release: Release | None,
    served: str | None,
    failure: str = "",
    stack: str | None = None,
    image: str = "",
    status: str = "InService",
    serves: bool = True,
) -> Answer:
    """Return the answer about the endpoint; nothing else can be asked."""
    serving = cast(Target, Serving(served, failure, stack, image, status))
    places = targets(nobody, lambda: serving, archive_url=OWN, serves=serves)
    *_, answer = compare(release, places, "shoal-mnist-staging")
    return answer


def test_an_endpoint_that_serves_the_pinned_version_agrees(
    staged: tuple[Checkout, Package],
) -> None:
    checkout, _ = staged
    answer = live(pinned(checkout), OWN)
    assert (answer.agrees, answer.message) == (
        True,
        f"shoal-mnist-staging is InService and serves {OWN}",
    )


def test_why_a_deployment_failed_is_called_old_where_what_is_pinned_is_served(
    staged: tuple[Checkout, Package],
) -> None:
    checkout, _ = staged
    old, now = (
        live(pinned(checkout), OWN, "it was slow"),
        live(pinned(checkout), f"{OWN}0", "it was slow"),
    )
    assert (old.agrees, now.agrees) == (True, False)
    assert old.message.endswith(
        "; as pinned; SageMaker still tells why an earlier deployment failed: it was slow"
    )
    assert now.message.endswith(f"serves {OWN}0; a deployment failed: it was slow")


@pytest.mark.parametrize(("other", "agrees"), [("", True), ("f" * 64, False), (None, False)])
def test_each_container_says_what_it_has_loaded(
    staged: tuple[Checkout, Package], other: str | None, agrees: bool
) -> None:
    """One of several with another model is found."""
    release = pinned(staged[0])
    said = cycle([release.content_sha256, release.content_sha256 if other == "" else other])
    serving = cast(Target, Serving(OWN, "", None))
    places = targets(nobody, lambda: serving, archive_url=OWN, serves=True)
    *_, answer = compare(release, places, ENDPOINT, lambda _: {"content_sha256": next(said)})
    assert (answer.question, answer.agrees) == ("content", agrees)
    assert answer.message.startswith("5 answers say content ")
    *_, answer = compare(release, places, ENDPOINT)
    assert answer.question == "live"


def test_the_answers_can_be_read_by_programs(
    staged: tuple[Checkout, Package], capsys: pytest.CaptureFixture[str]
) -> None:
    checkout, _ = staged
    capsys.readouterr()
    assert checkout.shoal(*STATUS, "dev", "staging", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(each["environment"], each["workload"]) for each in rows} == {
        ("dev", "mnist"),
        ("staging", "mnist"),
    }
    assert [each["question"] for each in rows if each["environment"] == "staging"] == [
        "registry",
        "model data",
        "image",
        "live",
    ]
    assert {each["agrees"] for each in rows} == {True}


def test_an_endpoint_that_serves_another_version_disagrees(
    staged: tuple[Checkout, Package],
) -> None:
    checkout, _ = staged
    assert live(pinned(checkout), f"{OWN}0").agrees is False


def test_an_endpoint_that_runs_another_image_than_the_pinned_one_disagrees(
    staged: tuple[Checkout, Package],
) -> None:
    checkout, _ = staged
    release, other = pinned(checkout), f"sha256:{'f' * 64}"
    answer = live(release, OWN, image=f"registry/repository@{other}")
    assert answer.agrees is False
    assert answer.message.endswith(
        f"serves {OWN}; the image that runs is {other}, pinned is {release.image_digest}"
    )
    assert live(release, OWN, image=f"registry/repository@{release.image_digest}").agrees is True
    assert live(release, OWN, image="registry/repository:tag").agrees is True


def test_an_endpoint_disagrees_where_nothing_is_pinned(released: Checkout) -> None:
    assert load_environment("dev", released.root).release is None
    unpinned, nothing = live(None, "some package"), live(None, None)
    assert (unpinned.agrees, nothing.agrees) == (False, True)
    assert unpinned.message.endswith(
        "; nothing is pinned: `shoal destroy staging --serving` deletes it"
    )


@pytest.mark.parametrize("status", ["Failed", "OutOfService", "Updating", "RollingBack"])
def test_an_endpoint_that_is_not_in_service_disagrees(
    staged: tuple[Checkout, Package], status: str
) -> None:
    checkout, _ = staged
    answer = live(pinned(checkout), OWN, "it ran out of memory", status=status)
    assert (answer.agrees, answer.message) == (
        False,
        (
            f"shoal-mnist-staging is {status} and serves {OWN}; a deployment failed: it ran"
            " out of memory"
        ),
    )


def test_an_endpoint_disagrees_where_the_file_says_nothing_of_serving_any_more(
    staged: tuple[Checkout, Package],
) -> None:
    checkout, _ = staged
    answer = live(pinned(checkout), OWN, serves=False)
    assert answer.agrees is False
    assert answer.message.endswith(
        "; the file has no section `serving`: `shoal destroy staging --serving` deletes it"
    )
    assert live(None, None, stack="ROLLBACK_COMPLETE", serves=False).agrees is False


def test_no_endpoint_disagrees_where_its_stack_was_deployed(
    staged: tuple[Checkout, Package],
) -> None:
    release = pinned(staged[0])
    answer = live(release, None, stack="UPDATE_COMPLETE")
    text = (
        "no endpoint shoal-mnist-staging, and its stack shoal-mnist-staging-serving is"
        " UPDATE_COMPLETE"
    )
    assert (answer.agrees, answer.message) == (False, text)
    assert [
        live(release, None, stack=status).agrees
        for status in (None, "DELETE_COMPLETE", "REVIEW_IN_PROGRESS")
    ] == [True, True, True]
    assert [
        live(None, None, stack=status, serves=False).agrees for status in ("UPDATE_COMPLETE", None)
    ] == [False, True]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("approved_by", "approved_by: arn:aws:iam::111122223333:user/nobody"),
        ("approved_at", "approved_at: '2020-01-01T00:00:00Z'"),
        ("definition_sha256", f"definition_sha256: {'a' * 64}"),
        ("metrics", "metrics: {accuracy: 0.9999}"),
        ("content_sha256", f"content_sha256: {'a' * 64}"),
        ("model_data_composite_sha256", f"model_data_composite_sha256: {'a' * 43}=-2"),
        ("model_data_url", "model_data_url: s3://another-bucket/model.tar.gz"),
    ],
)
def test_what_was_changed_by_hand_in_the_file_disagrees_with_the_registry(
    staged: tuple[Checkout, Package], capsys: pytest.CaptureFixture[str], key: str, text: str
) -> None:
    checkout, _ = staged
    file = checkout.root / "environments/staging.release.yaml"
    pins = pins_in(file.read_text())
    file.write_text(text_of({"mnist": pins["mnist"] | yaml.safe_load(text)}))
    code, output = lines(checkout, capsys, "staging")
    (answer,) = [
        line for line in output if line.strip().startswith(("DIFFERS registry", "ok      registry"))
    ]
    assert code == 1
    assert f"; pinned is {key} {yaml.safe_load(text)[key]}, not " in answer


class Refusing:
    """Credentials that may read the registry and the archive, but neither the execution nor the
    report.
    """

    def __init__(self, target: Target) -> None:
        self.account, self.region, self.endpoint_url = (
            target.account,
            target.region,
            target.endpoint_url,
        )
        # One with clients of its own: other tests use those of `target`.
        self._target = target.in_region(target.region)

    def in_region(self, region: str) -> Target:
        return self._target.in_region(region)

    def client(self, service: str) -> Any:
        client = self._target.client(service)
        for name in ("describe_pipeline_definition_for_execution", "get_object"):
            if hasattr(client, name):
                setattr(client, name, self._refuse)
        return client

    @staticmethod
    def _refuse(**_: str) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "Reading")


def test_what_these_credentials_may_not_read_is_named_and_is_no_disagreement(
    staged: tuple[Checkout, Package], registry: Registry
) -> None:
    checkout, package = staged
    target = cast(Target, Refusing(registry.target))
    report = registry.sagemaker.describe_model_package(ModelPackageName=package.arn)[
        "ModelMetrics"
    ]["ModelQuality"]["Statistics"]["S3Uri"]
    arn = registry.names.pipeline_arn
    places = targets(lambda: target, lambda: target, pipeline_arn=arn)
    answer, *_ = compare(pinned(checkout), places, "shoal-mnist-staging")
    execution = f"{registry.names.pipeline_arn}/execution/{registry.execution}"
    unread = {"definition_sha256": execution, "metrics": report}
    reasons = [
        f"{key} not compared: these credentials may not read {what}" for key, what in unread.items()
    ]
    assert answer.agrees is True
    assert answer.message.split("; ")[1:] == reasons
