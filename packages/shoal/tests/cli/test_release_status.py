"""Pins compared with shoal-local's registry, bucket, image repository and endpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import cycle
from types import SimpleNamespace
from typing import Any, Protocol, cast

import pytest
from botocore.exceptions import ClientError

from shoal.aws.target import Target
from shoal.errors import NotFoundError
from shoal.settings.loading.loader import load_environment
from shoal.settings.loading.release_file import pins_in, text_of
from shoal.settings.names import Names
from shoal.settings.sections.release import Release
from shoal.verbs.promote.release_status import ReleaseTargets, compare
from tests.cli.conftest import STAGING
from tests.cli.test_promote import pinned, promoted
from tests.cli.trained import MANIFEST, Checkout, Package, Registry
from tests.functions.test_seal_in_parts import composite
from tests.repository import ROOT
from tests.settings.releases import RELEASE
from tests.verbs.conftest import ACCOUNT, delete_stack, make_stack

STATUS = ("release", "status")
ENDPOINT = "shoal-mnist-staging"
OWN = f"s3://shoal-mnist-staging-artifacts/models/{'a' * 64}/model.tar.gz"


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


class Status(Protocol):
    """Returns exit code and lines of `shoal release status` in the checkout of a test."""

    def __call__(self, *environments: str) -> tuple[int, list[str]]: ...


@pytest.fixture
def status(released: Checkout, capsys: pytest.CaptureFixture[str]) -> Status:
    def ask(*environments: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        code = released.shoal(*STATUS, *environments)
        return code, capsys.readouterr().out.splitlines()

    return ask


@pytest.fixture
def staged(released: Checkout, registry: Registry) -> Package:
    """Return a version of its own that staging pins."""
    package = registry.approved()
    released.merge(promoted(released, package))
    return package


def test_what_is_as_pinned_agrees(staged: Package, status: Status) -> None:
    code, output = status("dev", "staging")
    assert code == 0
    assert [line for line in output if not line.startswith("  ok ")] == [
        "dev: pins no release",
        f"staging: pins {staged.arn}",
    ]


def test_a_rejected_release_differs(staged: Package, registry: Registry, status: Status) -> None:
    registry.judge(staged, "Rejected")
    code, output = status("staging")
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
    released: Checkout, staged: Package, registry: Registry, own_bucket: str, status: Status
) -> None:
    evaluated = registry.s3.get_object(**registry.place(staged.model))["Body"].read()
    url = bring(registry, own_bucket, pinned(released), evaluated)
    registry.replace(staged.model, b"what is there now is nothing to staging")
    _, output = status("staging")
    said = f"the own copy has the pinned sha256, {len(evaluated)} bytes"
    assert f"  ok      model data: {said}" in output
    bring(registry, own_bucket, pinned(released), b"another")
    code, output = status("staging")
    assert code == 1
    actual, expected = hashlib.sha256(b"another").hexdigest(), pinned(released).model_data_sha256
    assert f"  DIFFERS model data: the sha256 of {url} is {actual}, pinned is {expected}" in output


@pytest.mark.parametrize(
    ("own", "agrees", "says"),
    [
        (b"large", True, "the own copy has the pinned composite sha256, 5 bytes"),
        (
            b"another",
            False,
            f"the composite sha256 of {{url}} is {composite(b'another')},"
            f" pinned is {composite(b'large')}",
        ),
    ],
)
def test_an_own_copy_in_parts_is_compared_by_the_checksum_of_its_parts(
    registry: Registry, own_bucket: str, own: bytes, agrees: bool, says: str
) -> None:
    release = RELEASE.model_copy(update={"model_data_composite_sha256": composite(b"large")})
    place = {"Bucket": own_bucket, "Key": f"models/{release.model_data_sha256}/model.tar.gz"}
    upload = registry.s3.create_multipart_upload(**place, ChecksumAlgorithm="SHA256")
    place["UploadId"] = upload["UploadId"]
    part = registry.s3.upload_part(**place, PartNumber=1, Body=own, ChecksumAlgorithm="SHA256")
    parts = [{"PartNumber": 1} | {key: part[key] for key in ("ETag", "ChecksumSHA256")}]
    registry.s3.complete_multipart_upload(**place, MultipartUpload={"Parts": parts})
    url = f"s3://{own_bucket}/{place['Key']}"
    places = targets(lambda: registry.target, lambda: registry.target, archive_url=url)
    (answer,) = (
        each for each in compare(release, places, ENDPOINT) if each.question == "model data"
    )
    assert (answer.agrees, answer.message) == (agrees, says.format(url=url))


def test_files_whose_hashes_only_who_may_decrypt_gets_are_there(
    registry: Registry, own_bucket: str
) -> None:
    """The role of `cdk bootstrap` that looks is denied kms:Decrypt, and each night asks by it."""
    release = RELEASE.model_copy(update={"model_data_url": "s3://bucket/models/0a/model/"})
    registry.s3.put_object(Bucket=own_bucket, Key="models/0a/model/model.pt", Body=b"1")
    target = cast(Target, Refusing(registry.target, "head_object"))
    url = f"s3://{own_bucket}/models/0a/model/"
    places = targets(lambda: registry.target, lambda: target, archive_url=url)
    answers = {each.question: each for each in compare(release, places, ENDPOINT)}
    assert answers["model data"].agrees is True
    assert f"files below {url} are there; their sha256 not" in answers["model data"].message


@pytest.mark.usefixtures("own_bucket", "staged")
def test_a_missing_archive_differs(released: Checkout, registry: Registry, status: Status) -> None:
    _, output = status("staging")
    assert any("  ok      model data: a deployment will bring it to s3://" in one for one in output)
    stack = Names(load_environment("staging", released.root)).stack("serving")
    make_stack(registry.target, stack)
    code, output = status("staging")
    delete_stack(registry.target, stack)
    assert code == 1
    assert any(each.startswith("  DIFFERS model data: s3://") for each in output)


@pytest.fixture
def own_image(released: Checkout, registry: Registry) -> tuple[str, str]:
    """Return an image of the account's own that staging pins, and the name of its repository."""
    image, repository = registry.own_image()
    released.merge(promoted(released, registry.approved(image=image)))
    return image, repository


def test_an_image_that_is_gone_disagrees(
    own_image: tuple[str, str], registry: Registry, status: Status
) -> None:
    image, repository = own_image
    registry.target.client("ecr").delete_repository(repositoryName=repository, force=True)
    code, output = status("staging")
    assert code == 1
    assert any(line.startswith(f"  DIFFERS image: ECR has no {image}@") for line in output)


def test_a_tag_that_was_moved_is_told_while_the_pinned_digest_is_there(
    released: Checkout, own_image: tuple[str, str], registry: Registry, status: Status
) -> None:
    _, repository = own_image
    ecr, manifest = registry.target.client("ecr"), [{"imageDigest": pinned(released).image_digest}]
    ecr.put_image(repositoryName=repository, imageManifest=MANIFEST, imageTag="kept")
    other = MANIFEST.replace("[]", '[{"digest": "other"}]')
    moved = ecr.put_image(repositoryName=repository, imageManifest=other, imageTag="v1")
    assert ecr.batch_get_image(repositoryName=repository, imageIds=manifest)["images"]
    code, output = status("staging")
    (answer,) = [line for line in output if " image: " in line]
    assert code == 0
    digest = moved["image"]["imageId"]["imageDigest"]
    remark = f"its tag v1 names {digest} now, which is deployed once promoted"
    assert answer == f"  ok      image: the pinned digest is there; {remark}"


def test_where_nobody_can_be_asked_no_agreement_is_claimed(status: Status) -> None:
    code, output = status("prod")
    says = "  unknown live: not known: the emulator plays account 111122223333"
    assert code == 1
    assert any(line.startswith(says) for line in output)


def refused(code: str, message: str, operation: str = "Asking") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


class Serving:
    """An account with one endpoint: every description is of that one."""

    def __init__(
        self,
        url: str | None,
        failure: str = "",
        stack: str | None = None,
        image: str = "",
        status: str = "InService",
    ) -> None:
        self._stack, self._image, self._status = stack, image, status
        self._url, self._failure = url, {"FailureReason": failure} if failure else {}

    def client(self, _service: str) -> Serving:
        return self

    in_region = client

    def head_object(self, **_: str) -> None:
        raise refused("403", "Forbidden")

    batch_get_image = head_object
    exceptions = SimpleNamespace(RepositoryNotFoundException=KeyError)

    def describe_endpoint(self, EndpointName: str) -> dict[str, Any]:  # noqa: N803 - AWS's name
        if self._url is None:
            raise refused("ValidationException", f'Could not find endpoint "{EndpointName}"')
        variants = [{"DeployedImages": [{"ResolvedImage": self._image}]}]
        return {
            "EndpointConfigName": "config",
            "EndpointStatus": self._status,
            "ProductionVariants": variants,
            **self._failure,
        }

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803 - AWS's name
        if self._stack is None:
            raise refused("ValidationError", f"Stack {StackName} does not exist")
        return {"Stacks": [{"StackStatus": self._stack}]}

    def describe_endpoint_config(self, **_: str) -> dict[str, Any]:
        return {"ProductionVariants": [{"ModelName": "model"}]}

    def describe_model(self, **_: str) -> dict[str, Any]:
        return {"Containers": [{"ModelDataUrl": self._url}]}


def nobody() -> Target:
    raise NotFoundError("there is no registry here")


SERVED = f"{ENDPOINT} is InService and serves {OWN}"
ABSENT = f"no endpoint {ENDPOINT}"
STACK = f"{ABSENT}, and its stack {ENDPOINT}-serving is"
DELETES_IT = "`shoal destroy staging --serving` deletes it"
OTHER_IMAGE = f"sha256:{'f' * 64}"


@pytest.mark.parametrize(
    ("release", "account", "agrees", "says"),
    [
        (RELEASE, {"url": OWN}, True, SERVED),
        (RELEASE, {"url": f"{OWN}0"}, False, f"{SERVED}0"),
        (
            RELEASE,
            {"url": OWN, "failure": "it was slow"},
            True,
            f"{SERVED}; as pinned; SageMaker still tells why an earlier deployment failed: it was"
            " slow",
        ),
        (
            RELEASE,
            {"url": f"{OWN}0", "failure": "it was slow"},
            False,
            f"{SERVED}0; a deployment failed: it was slow",
        ),
        (
            RELEASE,
            {"url": OWN, "image": f"registry/repository@{OTHER_IMAGE}"},
            False,
            f"{SERVED}; the image that runs is {OTHER_IMAGE}, pinned is {RELEASE.image_digest}",
        ),
        (RELEASE, {"url": OWN, "image": f"registry/x@{RELEASE.image_digest}"}, True, SERVED),
        (RELEASE, {"url": OWN, "image": "registry/repository:tag"}, True, SERVED),
        *(
            (
                RELEASE,
                {"url": OWN, "failure": "it ran out of memory", "status": status},
                False,
                f"{ENDPOINT} is {status} and serves {OWN}; a deployment failed: it ran out of"
                " memory",
            )
            for status in ("Failed", "OutOfService", "Updating", "RollingBack")
        ),
        (
            None,
            {"url": "some package"},
            False,
            f"{ENDPOINT} is InService and serves some package; nothing is pinned: {DELETES_IT}",
        ),
        (None, {"url": None}, True, ABSENT),
        (RELEASE, {"url": None, "stack": "UPDATE_COMPLETE"}, False, f"{STACK} UPDATE_COMPLETE"),
        (RELEASE, {"url": None}, True, ABSENT),
        (RELEASE, {"url": None, "stack": "DELETE_COMPLETE"}, True, ABSENT),
        (RELEASE, {"url": None, "stack": "REVIEW_IN_PROGRESS"}, True, ABSENT),
    ],
)
def test_the_endpoint_is_compared_with_what_is_pinned(
    release: Release | None, account: dict[str, Any], agrees: bool, says: str
) -> None:
    assert live(release, account, serves=True) == (agrees, says)


@pytest.mark.parametrize(
    ("release", "account", "agrees", "says"),
    [
        (
            RELEASE,
            {"url": OWN},
            False,
            f"{SERVED}; the file has no section `serving`: {DELETES_IT}",
        ),
        (None, {"url": None, "stack": "ROLLBACK_COMPLETE"}, False, f"{STACK} ROLLBACK_COMPLETE"),
        (None, {"url": None, "stack": "UPDATE_COMPLETE"}, False, f"{STACK} UPDATE_COMPLETE"),
        (None, {"url": None}, True, ABSENT),
    ],
)
def test_an_endpoint_disagrees_where_the_file_says_nothing_of_serving_any_more(
    release: Release | None, account: dict[str, Any], agrees: bool, says: str
) -> None:
    assert live(release, account, serves=False) == (agrees, says)


def live(
    release: Release | None, account: dict[str, Any], *, serves: bool
) -> tuple[bool | None, str]:
    """Return the answer about the endpoint; nothing else can be asked."""
    serving = cast(Target, Serving(**account))
    places = targets(nobody, lambda: serving, archive_url=OWN, serves=serves)
    *_, answer = compare(release, places, ENDPOINT)
    return answer.agrees, answer.message


@pytest.mark.parametrize(
    ("other", "agrees"), [(RELEASE.content_sha256, True), ("f" * 64, False), (None, False)]
)
def test_each_container_says_what_it_has_loaded(other: str | None, agrees: bool) -> None:
    """One of several with another model is found."""
    said = cycle([RELEASE.content_sha256, other])
    serving = cast(Target, Serving(OWN))
    places = targets(nobody, lambda: serving, archive_url=OWN, serves=True)
    *_, answer = compare(RELEASE, places, ENDPOINT, lambda _: {"content_sha256": next(said)})
    assert (answer.question, answer.agrees) == ("content", agrees)
    assert answer.message.startswith("5 answers say content ")
    *_, answer = compare(RELEASE, places, ENDPOINT)
    assert answer.question == "live"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("approved_by", "arn:aws:iam::111122223333:user/nobody"),
        ("approved_at", "2020-01-01T00:00:00Z"),
        ("definition_sha256", "a" * 64),
        ("metrics", {"accuracy": 0.9999}),
        ("content_sha256", "a" * 64),
        ("model_data_composite_sha256", f"{'a' * 43}=-2"),
        ("model_data_url", "s3://another-bucket/model.tar.gz"),
    ],
)
@pytest.mark.usefixtures("staged")
def test_a_changed_pin_differs(released: Checkout, status: Status, key: str, value: Any) -> None:
    file = released.root / "environments/staging.release.yaml"
    pins = pins_in(file.read_text())
    file.write_text(text_of({"mnist": pins["mnist"] | {key: value}}))
    code, output = status("staging")
    (answer,) = [line for line in output if line.strip().startswith(("DIFFERS reg", "ok      reg"))]
    assert code == 1
    assert f"; pinned is {key} {value}, not " in answer


class Refusing:
    """Credentials that may not do what `names` say."""

    def __init__(self, target: Target, *names: str) -> None:
        self._names = names
        self.account, self.region = target.account, target.region
        self.endpoint_url = target.endpoint_url
        # One with clients of its own: other tests use those of `target`.
        self._target = target.in_region(target.region)

    def in_region(self, region: str) -> Target:
        return self._target.in_region(region)

    def client(self, service: str) -> Any:
        client = self._target.client(service)
        for name in self._names:
            if hasattr(client, name):
                setattr(client, name, self._refuse)
        return client

    @staticmethod
    def _refuse(**_: str) -> None:
        raise refused("AccessDenied", "no", "HeadObject")


def test_what_is_not_read_is_named(released: Checkout, staged: Package, registry: Registry) -> None:
    refusing = Refusing(registry.target, "describe_pipeline_definition_for_execution", "get_object")
    target, arn = cast(Target, refusing), registry.names.pipeline_arn
    package = registry.sagemaker.describe_model_package(ModelPackageName=staged.arn)
    places = targets(lambda: target, lambda: target, pipeline_arn=arn)
    answer, *_ = compare(pinned(released), places, ENDPOINT)
    unread = {
        "definition_sha256": f"{arn}/execution/{registry.execution}",
        "metrics": package["ModelMetrics"]["ModelQuality"]["Statistics"]["S3Uri"],
    }
    reasons = [
        f"{key} not compared: these credentials may not read {what}" for key, what in unread.items()
    ]
    assert answer.agrees is True
    assert answer.message.split("; ")[1:] == reasons
