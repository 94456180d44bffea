"""The seal copies exactly what was evaluated, and what was approved is brought along: once, and
nothing that was written later.
"""

import hashlib
import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import register_version
from local_kit.tables import rows
from shoal.aws.model_archive import content_sha256
from tests.cli.trained import archive
from tests.functions.invocation import FUNCTIONS, Outcome, Request, invoke, serving

BUCKET = "shoal-mnist-dev-artifacts-111122223333-us-east-1"
KEY = "training/abcdefghijkl/pipelines-abcdefghijkl-Train/output/model.tar.gz"
FILES = {"model.pt": b"weights", "vocab.txt": b"a b", "code/inference.py": b"serve"}
ARCHIVE = archive(FILES)
SHA256 = hashlib.sha256(ARCHIVE).hexdigest()
SEALED = f"models/{SHA256}/model.tar.gz"
EVENT = {
    "execution_id": "abcdefghijkl",
    "model_data_url": f"s3://{BUCKET}/{KEY}",
    "archive_sha256": SHA256,
    "archive_composite_sha256": "",
    "content_sha256": content_sha256(io.BytesIO(ARCHIVE)),
}
RESULT = {
    "status": "Sealed",
    "model_data_url": f"s3://{BUCKET}/{SEALED}",
    "archive_sha256": SHA256,
    "content_sha256": EVENT["content_sha256"],
}


@pytest.fixture
def s3(client: Callable[[str], Any]) -> Any:
    """Return a client of an account with the archive that was evaluated."""
    s3 = client("s3")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=ARCHIVE, Metadata={"by": "a job"})
    return s3


def seal(moto_url: str, **changes: Any) -> Outcome:
    return invoke("seal", EVENT | changes, endpoint_url=moto_url, module="sealer")


def versions(s3: Any, key: str) -> list[str]:
    page = s3.list_object_versions(Bucket=BUCKET, Prefix=key)
    return [version["VersionId"] for version in page.get("Versions", [])]


def content(s3: Any, key: str) -> bytes:
    return bytes(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())


def test_the_archive_is_copied_under_its_hash_and_the_next_steps_get_the_copy(
    s3: Any, moto_url: str
) -> None:
    assert seal(moto_url).result == RESULT
    assert content(s3, SEALED) == ARCHIVE
    assert not s3.head_object(Bucket=BUCKET, Key=SEALED)["Metadata"]


@pytest.mark.parametrize("key", ["/model.tar.gz", "a//model.tar.gz", "a#b?c/model.tar.gz"])
def test_the_key_of_an_archive_is_taken_as_it_is(s3: Any, moto_url: str, key: str) -> None:
    s3.put_object(Bucket=BUCKET, Key=key, Body=ARCHIVE)
    s3.delete_object(Bucket=BUCKET, Key=KEY)
    assert seal(moto_url, model_data_url=f"s3://{BUCKET}/{key}").result == RESULT
    assert content(s3, SEALED) == ARCHIVE


def test_an_archive_that_was_written_again_after_the_evaluation_is_never_under_that_name(
    s3: Any, moto_url: str
) -> None:
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"another archive")
    error = seal(moto_url).error
    assert f"evaluated was {SHA256}: it was written again after it was evaluated" in error
    assert versions(s3, SEALED) == []


def test_what_is_sealed_stays_as_it_is_whatever_was_written_meanwhile(
    s3: Any, moto_url: str
) -> None:
    """Its version is pinned, so a repeated step must not make another."""
    seal(moto_url)
    before = versions(s3, SEALED)
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"another archive")
    assert seal(moto_url).result["status"] == "Sealed"
    assert (versions(s3, SEALED), content(s3, SEALED)) == (before, ARCHIVE)


def test_what_somebody_else_put_under_that_name_is_not_taken_for_sealed(
    s3: Any, moto_url: str
) -> None:
    """No policy lets a job write there; the seal does not depend on it."""
    s3.put_object(Bucket=BUCKET, Key=SEALED, Body=b"another archive")
    assert seal(moto_url).result["status"] == "Sealed"
    assert content(s3, SEALED) == ARCHIVE


@pytest.mark.parametrize("key", ["archive_sha256", "content_sha256"])
@pytest.mark.parametrize("value", [None, "", "4F" * 32, "../../training/x"])
def test_without_what_the_evaluation_measured_nothing_is_sealed(
    s3: Any, moto_url: str, key: str, value: str | None
) -> None:
    assert f"what does evaluation.json say at model.{key}?" in seal(moto_url, **{key: value}).error
    assert versions(s3, "models/") == []


@pytest.mark.parametrize(("digested", "says"), rows(__file__, "cases.yaml", "digested"))
def test_a_file_that_the_evaluated_digest_leaves_out_fails_the_step(
    s3: Any, moto_url: str, digested: list[str], says: str
) -> None:
    content = archive({name: FILES.get(name, b"") for name in digested})
    error = seal(moto_url, content_sha256=content_sha256(io.BytesIO(content))).error
    assert says in error
    assert content_sha256(io.BytesIO(content)) in error
    assert versions(s3, SEALED) == []


def test_an_archive_that_takes_too_long_to_read_is_sealed_and_left_to_promotion(
    moto_url: str,
) -> None:
    event = EVENT | {"content_sha256": "0" * 64}
    sealed = invoke("seal", event, endpoint_url=moto_url, module="sealer", remaining_ms=20_000)
    assert (sealed.error, sealed.result["status"]) == ("", "Sealed")
    assert "was not read whole: no time is left; promotion reads it" in sealed.log


@pytest.mark.parametrize("name", ["code/__pycache__/a.pyc", "MAR-INF/MANIFEST.json"])
def test_so_do_the_files_that_a_container_would_leave_out(
    s3: Any, moto_url: str, name: str
) -> None:
    content = archive({**FILES, name: b"hidden"})
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=content)
    error = seal(moto_url, archive_sha256=hashlib.sha256(content).hexdigest()).error
    assert f"which leaves out {name if '__pycache__' in name else 'MAR-INF'}; let" in error


def test_what_is_no_archive_fails_the_step(s3: Any, moto_url: str) -> None:
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"no archive")
    error = seal(moto_url, archive_sha256=hashlib.sha256(b"no archive").hexdigest()).error
    assert "is no archive of a model" in error
    assert {each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET)["Contents"]} == {
        KEY,
        "models/_candidates/abcdefghijkl/model.tar.gz",
    }


def test_an_archive_that_is_gone_fails_the_step(s3: Any, moto_url: str) -> None:
    s3.delete_object(Bucket=BUCKET, Key=KEY)
    assert "404" in seal(moto_url).error


PATIENCE = """
import sys
sys.path.insert(0, {folder!r})
import sealed_archive
from botocore.config import Config
def handler(event, context):
    timeout_s = sealed_archive._PATIENT.read_timeout
    sealed_archive._PATIENT = sealed_archive._PATIENT.merge(Config(read_timeout=1))
    try:
        sealed_archive.s3_client().copy_object(Bucket="b", Key="k", CopySource="b/other")
    except Exception as error:
        return [timeout_s, type(error).__name__]
    return [timeout_s, "copied"]
"""


@pytest.mark.parametrize(
    ("hangs", "outcome", "tries"), [(True, "ReadTimeoutError", 1), (False, "copied", 3)]
)
def test_a_copy_that_takes_long_is_not_begun_again_and_one_that_s3_refuses_now_is(
    tmp_path: Path, hangs: bool, outcome: str, tries: int
) -> None:
    requests, over = [], threading.Event()

    def answer(request: Request) -> tuple[int, bytes]:
        requests.append(request)
        if hangs:
            over.wait(30)
        slow = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
        return (503, slow) if len(requests) < 3 else (200, b"<CopyObjectResult/>")

    (tmp_path / "patience.py").write_text(PATIENCE.format(folder=str(FUNCTIONS / "seal")))
    with serving(answer) as url:
        timeout_s, said = invoke(str(tmp_path), {}, endpoint_url=url, module="patience").result
        over.set()
    assert (said, len(requests)) == (outcome, tries)
    assert 300 <= timeout_s <= 540  # the step's limit is 600


SOURCE = f"s3://{BUCKET}/elsewhere/model.tar.gz"
OWN = f"s3://{BUCKET}/{SEALED}"
GROUP = "shoal-mnist-dev"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-cpu"
BRINGING = f"""
import sys
sys.path.insert(0, {str(FUNCTIONS / "seal")!r})
import bring
def handler(event, context):
    return bring.bring(event)
"""

YOUNG = f"""
import sys
sys.path.insert(0, {str(FUNCTIONS / "seal")!r})
import bring

class Registry:
    def __init__(self, codes):
        self.codes = codes

    def describe_model_package(self, ModelPackageName):
        if self.codes:
            error = dict(Code=self.codes.pop(0), Message="no")
            raise bring.ClientError(dict(Error=error), "DescribeModelPackage")
        return dict(ModelApprovalStatus="Rejected")

def handler(event, context):
    registry = Registry(event["codes"])
    bring.boto3.client = lambda service: registry
    bring.metadata_of_sealed = lambda *_: None
    bring.s3_client = lambda: None
    bring.PAUSES_S = (0, 0)
    bring._answer = lambda event, url, reason: print(reason)
    bring.handler(event, context)
"""


class Registry:
    """A registry with one approved version, whose archive is in the bucket."""

    def __init__(self, url: str, sagemaker: Any, s3: Any, folder: Path) -> None:
        self._url, self.client, self._folder = url, sagemaker, folder
        self.client.create_model_package_group(ModelPackageGroupName=GROUP)
        s3.put_object(Bucket=BUCKET, Key="elsewhere/model.tar.gz", Body=ARCHIVE)
        (folder / "bringing.py").write_text(BRINGING)

    def register(self, url: str = SOURCE, **environment: str) -> dict[str, Any]:
        """Approve a version; return its pin, as the properties of the custom resource."""
        built = f"{IMAGE}@sha256:{'0' * 64}"
        container = {"Image": built, "ModelDataUrl": url, "Environment": environment}
        arn = register_version(self.client, GROUP, container, ModelApprovalStatus="Approved")
        return {
            "ModelPackageArn": arn,
            "ModelDataUrl": url,
            "ImageUri": IMAGE,
            "Environment": environment,
            "ModelDataSha256": SHA256,
            "Bucket": BUCKET,
        }

    def reject(self, pinned: dict[str, Any], approval: str = "Rejected") -> None:
        self.client.update_model_package(
            ModelPackageArn=pinned["ModelPackageArn"], ModelApprovalStatus=approval
        )

    def bring(self, pinned: dict[str, Any], **changes: Any) -> Outcome:
        return invoke(
            str(self._folder), pinned | changes, endpoint_url=self._url, module="bringing"
        )


@pytest.fixture
def registry(moto_url: str, client: Callable[[str], Any], s3: Any, tmp_path: Path) -> Registry:
    return Registry(moto_url, client("sagemaker"), s3, tmp_path)


def test_what_was_brought_is_asked_about_no_more(registry: Registry, s3: Any) -> None:
    pinned = registry.register(BATCH="8")
    assert registry.bring(pinned).result == OWN
    registry.reject(pinned)
    before = versions(s3, SEALED)
    assert registry.bring(pinned).result == OWN
    assert versions(s3, SEALED) == before


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("approval", ["Rejected", "PendingManualApproval"])
def test_what_nobody_approved_is_not_brought(
    registry: Registry, s3: Any, approval: str, is_stored: bool
) -> None:
    """Also where the own store has the archive already, by a pipeline of its own."""
    pinned = registry.register(BATCH="8")
    registry.reject(pinned, approval)
    if is_stored:
        s3.put_object(Bucket=BUCKET, Key=SEALED, Body=ARCHIVE, ChecksumAlgorithm="SHA256")
    assert f"is {approval}, not Approved" in registry.bring(pinned).error
    assert len(versions(s3, SEALED)) == is_stored


def test_two_releases_of_the_same_archive_are_both_remembered(registry: Registry) -> None:
    """A deployment of the second one may be rolled back to the first."""
    first, second = registry.register(BATCH="8"), registry.register(BATCH="9")
    for pinned in (first, second):
        assert registry.bring(pinned).result == OWN
        registry.reject(pinned)
    assert registry.bring(first).result == registry.bring(second).result == OWN


@pytest.mark.parametrize(("changes", "says"), rows(__file__, "cases.yaml", "changed_pins"))
def test_a_changed_pin_of_what_was_brought_is_refused(
    registry: Registry, changes: dict[str, Any], says: str
) -> None:
    pinned = registry.register(BATCH="8")
    assert registry.bring(pinned).result == OWN
    error = registry.bring(pinned, **changes).error
    assert error.startswith("NotApprovedError: ")
    assert says in error


def test_an_archive_of_the_own_registry_is_always_asked_about_and_never_copied(
    registry: Registry, s3: Any
) -> None:
    pinned = registry.register(OWN)
    s3.put_object(Bucket=BUCKET, Key=SEALED, Body=ARCHIVE, ChecksumAlgorithm="SHA256")
    before = versions(s3, "models/")
    assert registry.bring(pinned).result == OWN
    assert versions(s3, "models/") == before
    registry.reject(pinned)
    assert "is Rejected, not Approved" in registry.bring(pinned).error


def test_an_archive_of_the_own_registry_with_another_hash_is_refused(
    registry: Registry, s3: Any
) -> None:
    pinned = registry.register(OWN)
    s3.put_object(Bucket=BUCKET, Key=SEALED, Body=b"another", ChecksumAlgorithm="SHA256")
    assert "is not there with the pinned sha256" in registry.bring(pinned).error


@pytest.mark.parametrize(
    ("kind", "codes", "says"),
    [
        ("Create", ["AccessDeniedException"] * 2, "is Rejected, not Approved"),
        ("Create", ["AccessDeniedException"] * 3, "is not known: An error occurred (AccessDenied"),
        ("Create", ["ValidationException"], "is not known: An error occurred (Validation"),
        ("Update", ["AccessDeniedException"], "is not known: An error occurred (AccessDenied"),
    ],
)
def test_only_the_first_deployment_asks_a_registry_that_refuses_again(
    tmp_path: Path, kind: str, codes: list[str], says: str
) -> None:
    """IAM takes moments to apply the policy of a role that was just made."""
    (tmp_path / "young.py").write_text(YOUNG)
    pinned = {
        "ModelPackageArn": "arn",
        "ModelDataUrl": SOURCE,
        "ImageUri": IMAGE,
        "ModelDataSha256": SHA256,
        "Bucket": BUCKET,
    }
    event = {"RequestType": kind, "ResourceProperties": pinned, "codes": codes}
    outcome = invoke(str(tmp_path), event, endpoint_url="http://127.0.0.1:9", module="young")
    assert says in outcome.log
