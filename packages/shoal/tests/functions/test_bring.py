"""What was approved is written down with the copy, so that nobody is asked twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functions.invocation import FUNCTIONS, Outcome, invoke
from tests.functions.test_seal import ARCHIVE, BUCKET, SEALED, SHA256, s3, versions

__all__ = ["s3"]  # a fixture

SOURCE = f"s3://{BUCKET}/elsewhere/model.tar.gz"
OWN = f"s3://{BUCKET}/{SEALED}"
GROUP = "shoal-mnist-dev"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-cpu"
PROGRAM = f"""
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
        (folder / "bringing.py").write_text(PROGRAM)

    def register(self, url: str = SOURCE, **environment: str) -> dict[str, Any]:
        """Approve a version; return its pin, as the properties of the custom resource."""
        built = f"{IMAGE}@sha256:{'0' * 64}"
        container = {"Image": built, "ModelDataUrl": url, "Environment": environment}
        arn = self.client.create_model_package(
            ModelPackageGroupName=GROUP,
            ModelApprovalStatus="Approved",
            InferenceSpecification={
                "Containers": [container],
                "SupportedContentTypes": ["application/json"],
                "SupportedResponseMIMETypes": ["application/json"],
            },
        )["ModelPackageArn"]
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


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ImageUri": "stranger:1"}, f"has the image {IMAGE}, pinned is stranger:1"),
        ({"Environment": {"BATCH": "9"}}, "has the environment {'BATCH': '8'}, pinned is {'"),
        ({"Environment": {}}, "has the environment {'BATCH': '8'}, pinned is {}"),
        ({"ModelDataUrl": f"s3://{BUCKET}/models/x"}, f", pinned is s3://{BUCKET}/models/x"),
    ],
)
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
