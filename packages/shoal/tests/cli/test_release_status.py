"""Pins compared with shoal-local's registry, bucket, image repository and endpoint."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from local_kit.tables import rows, table
from shoal.aws.objects import object_at
from shoal.aws.target import Target
from shoal.errors import NotFoundError
from shoal.settings.loading.loader import load_environment
from shoal.settings.loading.release_file import pins_in, text_of
from shoal.settings.names import Names
from shoal.settings.sections.release import Release
from shoal.settings.settings import Environment
from shoal.verbs.promote.release_status import Answer, compare
from tests.cli.test_promote import pinned
from tests.cli.trained import MANIFEST, Checkout, Package, Registry, promoted
from tests.functions.test_seal_in_parts import composite
from tests.repository import ROOT
from tests.settings.environment_file import RELEASE
from tests.verbs.conftest import ACCOUNT, delete_stack, make_stack, refusing

STATUS = ("release", "status")
DEV, PLAIN = (load_environment(name, ROOT) for name in ("dev", "staging"))
ENDPOINT = Names(PLAIN).serving_endpoint


def staging(release: Release | None = RELEASE, *, serves: bool = True) -> Environment:
    """Return staging in the account of the tests, which pins the release."""
    sections = {"account": ACCOUNT, "release": release} | ({} if serves else {"serving": None})
    return PLAIN.model_copy(update=sections)


OWN = Names(staging()).sealed_url(RELEASE)


def answers(
    environment: Environment, serving: object, registry: Target | None = None, ask: Any = None
) -> dict[str, Answer]:
    """Return how what it pins compares with what these accounts have, by question."""
    opened = nobody if registry is None else lambda: registry
    account = cast("Target", serving)
    found = compare(environment, DEV, opened, lambda: account, ask)
    return {each.question: each for each in found}


Status = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def status(released: Checkout, capsys: pytest.CaptureFixture[str]) -> Status:
    """Return exit code and lines of `shoal release status` of some environments."""

    def ask(*environments: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        code = released.shoal(*STATUS, *environments)
        return code, capsys.readouterr().out.splitlines()

    return ask


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
    bucket = Names(staging()).bucket("artifacts")
    registry.s3.create_bucket(Bucket=bucket)
    yield bucket
    for each in registry.s3.list_objects_v2(Bucket=bucket).get("Contents", []):
        registry.s3.delete_object(Bucket=bucket, Key=each["Key"])
    registry.s3.delete_bucket(Bucket=bucket)


def bring(registry: Registry, release: Release, content: bytes) -> str:
    """Put an object where staging's own copy of the release lies; return its URL."""
    url = Names(staging()).sealed_url(release)
    registry.s3.put_object(**object_at(url), Body=content, ChecksumAlgorithm="SHA256")
    return url


@pytest.mark.usefixtures("own_bucket")
def test_the_own_copy_of_the_archive_is_compared_by_its_hash(
    released: Checkout, staged: Package, registry: Registry, status: Status
) -> None:
    evaluated = registry.s3.get_object(**registry.place(staged.model))["Body"].read()
    url = bring(registry, pinned(released), evaluated)
    registry.replace(staged.model, b"what is there now is nothing to staging")
    _, output = status("staging")
    said = f"the own copy has the pinned sha256, {len(evaluated)} bytes"
    assert f"  ok      model data: {said}" in output
    bring(registry, pinned(released), b"another")
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
            f"the composite sha256 of {OWN} is {composite(b'another')},"
            f" pinned is {composite(b'large')}",
        ),
    ],
)
@pytest.mark.usefixtures("own_bucket")
def test_an_own_copy_in_parts_is_compared_by_the_checksum_of_its_parts(
    registry: Registry, own: bytes, agrees: bool, says: str
) -> None:
    release = RELEASE.model_copy(update={"model_data_composite_sha256": composite(b"large")})
    place = object_at(OWN)
    upload = registry.s3.create_multipart_upload(**place, ChecksumAlgorithm="SHA256")
    place["UploadId"] = upload["UploadId"]
    part = registry.s3.upload_part(**place, PartNumber=1, Body=own, ChecksumAlgorithm="SHA256")
    parts = [{"PartNumber": 1} | {key: part[key] for key in ("ETag", "ChecksumSHA256")}]
    registry.s3.complete_multipart_upload(**place, MultipartUpload={"Parts": parts})
    answer = answers(staging(release), registry.target)["model data"]
    assert (answer.agrees, answer.message) == (agrees, says)


@pytest.mark.usefixtures("own_bucket")
def test_files_whose_hashes_only_who_may_decrypt_gets_are_there(registry: Registry) -> None:
    """The role of `cdk bootstrap` that looks is denied kms:Decrypt, and each night asks by it."""
    release = RELEASE.model_copy(update={"model_data_url": "s3://bucket/models/0a/model/"})
    url = Names(staging()).sealed_url(release)
    registry.s3.put_object(**object_at(f"{url}model.pt"), Body=b"1")
    answer = answers(staging(release), refusing(registry.target, "HeadObject"))["model data"]
    assert answer.agrees is True
    assert f"files below {url} are there; their sha256 not" in answer.message


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


def test_a_tag_that_was_moved_is_told_and_an_image_that_is_gone_disagrees(
    released: Checkout, registry: Registry, status: Status
) -> None:
    image, repository = registry.own_image()
    released.merge(promoted(released, registry.approved(image=image)))
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
    ecr.delete_repository(repositoryName=repository, force=True)
    code, output = status("staging")
    assert code == 1
    assert any(line.startswith(f"  DIFFERS image: ECR has no {image}@") for line in output)


def test_where_nobody_can_be_asked_no_agreement_is_claimed(status: Status) -> None:
    code, output = status("prod")
    says = "  unknown live: not known: the emulator plays account 111122223333"
    assert code == 1
    assert any(line.startswith(says) for line in output)


def refused(code: str, message: str, operation: str = "Asking") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


@dataclass(frozen=True)
class Serving:
    """An account with one endpoint: every description is of that one."""

    url: str | None
    failure: str = ""
    stack: str | None = None
    image: str = ""
    status: str = "InService"

    def client(self, _service: str) -> "Serving":
        return self

    in_region = client

    def head_object(self, **_: str) -> None:
        raise refused("403", "Forbidden")

    batch_get_image = head_object
    exceptions = SimpleNamespace(RepositoryNotFoundException=KeyError)

    def describe_endpoint(self, EndpointName: str) -> dict[str, Any]:  # noqa: N803 - AWS's name
        if self.url is None:
            raise refused("ValidationException", f'Could not find endpoint "{EndpointName}"')
        variants = [{"DeployedImages": [{"ResolvedImage": self.image}]}]
        about = {"EndpointConfigName": "config", "EndpointStatus": self.status}
        why = {"FailureReason": self.failure} if self.failure else {}
        return {"ProductionVariants": variants, **about, **why}

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803 - AWS's name
        if self.stack is None:
            raise refused("ValidationError", f"Stack {StackName} does not exist")
        return {"Stacks": [{"StackStatus": self.stack}]}

    def describe_endpoint_config(self, **_: str) -> dict[str, Any]:
        return {"ProductionVariants": [{"ModelName": "model"}]}

    def describe_model(self, **_: str) -> dict[str, Any]:
        return {"Containers": [{"ModelDataUrl": self.url}]}


def nobody() -> Target:
    raise NotFoundError("there is no registry here")


WORDS = {
    "OWN": OWN,
    "ENDPOINT": ENDPOINT,
    "IMAGE": RELEASE.image_digest,
    "OTHER": f"sha256:{'f' * 64}",
}


@pytest.mark.parametrize(
    "row", table(__file__, "cases.yaml")["live"], ids=lambda row: row["says"][:60]
)
def test_the_endpoint_is_compared_with_what_the_file_says(row: dict[str, Any]) -> None:
    def filled(text: str, more: dict[str, str]) -> str:
        for word, value in (WORDS | more).items():
            text = text.replace(word, value)
        return text

    account = {key: value and filled(value, {}) for key, value in row["account"].items()}
    release = RELEASE if row.get("pins", True) else None
    environment = staging(release, serves=row.get("serves", True))
    live = answers(environment, Serving(**account))["live"]
    states = {key.upper(): account[key] for key in ("status", "stack") if account.get(key)}
    assert (live.agrees, live.message) == (row["agrees"], filled(row["says"], states))


@pytest.mark.parametrize(
    ("other", "agrees"), [(RELEASE.content_sha256, True), ("f" * 64, False), (None, False)]
)
def test_each_container_says_what_it_has_loaded(other: str | None, agrees: bool) -> None:
    """One of several with another model is found."""
    said = cycle([RELEASE.content_sha256, other])
    told = answers(staging(), Serving(OWN), ask=lambda *_: {"content_sha256": next(said)})
    assert told["content"].agrees == agrees
    assert told["content"].message.startswith("5 answers say content ")
    assert "content" not in answers(staging(), Serving(OWN))


@pytest.mark.parametrize(("key", "value"), rows(__file__, "cases.yaml", "pins"))
@pytest.mark.usefixtures("staged")
def test_a_changed_pin_differs(released: Checkout, status: Status, key: str, value: Any) -> None:
    file = released.root / "environments/staging.release.yaml"
    pins = pins_in(file.read_text())
    file.write_text(text_of({"mnist": pins["mnist"] | {key: value}}))
    code, output = status("staging")
    (answer,) = [line for line in output if line.strip().startswith(("DIFFERS reg", "ok      reg"))]
    assert code == 1
    assert f"; pinned is {key} {value}, not " in answer


def test_what_is_not_read_is_named(released: Checkout, staged: Package, registry: Registry) -> None:
    package = registry.sagemaker.describe_model_package(ModelPackageName=staged.arn)
    target = refusing(registry.target, "DescribePipelineDefinitionForExecution", "GetObject")
    answer = answers(staging(pinned(released)), target, registry=target)["registry"]
    unread = {
        "definition_sha256": f"{registry.names.pipeline_arn}/execution/{registry.execution}",
        "metrics": package["ModelMetrics"]["ModelQuality"]["Statistics"]["S3Uri"],
    }
    denied = "not compared: these credentials may not read"
    assert answer.agrees is True
    assert answer.message.split("; ")[1:-1] == [f"{key} {denied} {unread[key]}" for key in unread]
    assert "; code_commit not compared: " in answer.message
