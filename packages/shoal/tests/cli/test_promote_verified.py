"""Everything that `shoal promote` verifies is refused when it is not as it should be."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import replace
from typing import Any

import pytest

from shoal.aws.registry import describe
from shoal.errors import PromotionError
from shoal.page.readings.evaluation import MAX_BYTES
from shoal.repository import Repository
from shoal.verbs.promote.promotion import Verification
from tests.cli.test_promote import TO_PROD, TO_STAGING, pinned, promoted, refusal
from tests.cli.trained import CODE, SERVED, WEIGHTS, Checkout, Package, Registry, archive
from tests.verbs.conftest import ACCOUNT, REGION

DIGESTS = ("archive_sha256", "content_sha256")


@pytest.mark.parametrize("status", ["PendingManualApproval", "Rejected"])
def test_a_version_that_is_not_approved_is_refused(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str], status: str
) -> None:
    package = registry.register()
    registry.judge(package, status)
    line = refusal(released, capsys, *TO_STAGING, "--package", package.version)
    assert (
        f"it is {status}, not Approved; an approver runs `shoal approve dev"
        f" {package.version}`" in line
    )


@pytest.mark.parametrize(
    "forged",
    [
        {"model.pt": b"other weights", **SERVED},
        {"model.pt": b"other weights", "decoy.bin": WEIGHTS, **SERVED},
        {"model.pt": WEIGHTS, "1/saved_model.pb": b"other graph", **SERVED},
        {"model.pt": WEIGHTS, "2/saved_model.pb": b"graph", **SERVED},
    ],
    ids=["other weights", "a decoy with the weights", "another graph", "another version"],
)
def test_an_archive_that_is_not_what_was_evaluated_is_refused(
    released: Checkout,
    registry: Registry,
    capsys: pytest.CaptureFixture[str],
    forged: dict[str, bytes],
) -> None:
    package = registry.approved()
    registry.replace(package.model, archive(forged))
    line = refusal(released, capsys, *TO_STAGING, "--package", package.version)
    assert f"hash mismatch: the sha256 of {package.model} is" in line


def test_a_report_that_names_the_archive_but_another_content_is_refused(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    """A container would answer a digest that nobody expects."""
    digest = hashlib.sha256(archive({"model.pt": WEIGHTS, **SERVED})).hexdigest()
    model = {"archive_sha256": digest, "content_sha256": "0" * 64}
    package = registry.approved(report=json.dumps({"model": model}).encode())
    line = refusal(released, capsys, *TO_STAGING, "--package", package.version)
    assert f"hash mismatch: the content of {package.model} is" in line


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (b"not json", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is no JSON object"),
        (b'{"metrics": []}', "has [] as `metrics`, where an object belongs"),
        (b'{"metrics": null}', "has null as `metrics`, where an object belongs"),
        (b'{"model": null}', "has null as `model`, where an object belongs"),
        (b"{}", "has null as `model.content_sha256`, where a sha256 belongs"),
        (
            b'{"metrics": {}}' + b" " * MAX_BYTES + b"{}",
            "has null as `model.content_sha256`, where a sha256 belongs",
        ),
        (
            b'{"metrics": {"accuracy": {"value": NaN}}}',
            'has no finite number as the metric "accuracy"',
        ),
        (
            b'{"metrics": {"accuracy": {"value": 1e400}}}',
            'has no finite number as the metric "accuracy"',
        ),
        (
            b'{"metrics": {"images": {"value": 1' + b"0" * 400 + b"}}}",
            'has no finite number as the metric "images"',
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_evaluation_that_is_no_report_is_refused(
    released: Checkout,
    registry: Registry,
    capsys: pytest.CaptureFixture[str],
    report: bytes,
    says: str,
) -> None:
    package = registry.approved(report=report)
    assert f"evaluation.json {says}; mend what wrote it, and train again" in refusal(
        released, capsys, *TO_STAGING, "--package", package.version
    )


@pytest.mark.parametrize(
    ("foreign", "says"),
    [
        (
            {"container": {"ModelDataETag": '"abc"'}},
            'the registry noted "abc"; find out who wrote it',
        ),
        (
            {"image": "docker.io/library/python:3.12"},
            "its image docker.io/library/python:3.12 is not in ECR",
        ),
        ({"is_measured": False}, "it has no report of an evaluation (ModelMetrics)"),
    ],
    ids=["another ETag", "an image that is not in ECR", "no report"],
)
def test_what_was_not_registered_as_the_pipeline_does_is_refused(
    released: Checkout,
    registry: Registry,
    capsys: pytest.CaptureFixture[str],
    foreign: dict[str, Any],
    says: str,
) -> None:
    package = registry.approved(**foreign)
    assert says in refusal(released, capsys, *TO_STAGING, "--package", package.version)


def test_an_archive_that_a_job_may_write_again_is_refused(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"s3://{registry.bucket}/training/abc/output/model.tar.gz"
    registry.replace(url, archive({"model.pt": WEIGHTS, **SERVED}))
    package = registry.approved(container={"ModelDataUrl": url})
    line = refusal(released, capsys, *TO_STAGING, "--package", package.version)
    assert f"{url} is not sealed, so a job may write it again" in line


def test_an_archive_in_a_bucket_without_versions_is_refused(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    package, versions = registry.register(), {"Bucket": registry.bucket}
    registry.s3.put_bucket_versioning(**versions, VersioningConfiguration={"Status": "Suspended"})
    try:
        registry.replace(package.model, archive({"model.pt": WEIGHTS, **SERVED}))
        registry.judge(package, "Approved")
        line = refusal(released, capsys, *TO_STAGING, "--package", package.version)
    finally:
        registry.s3.put_bucket_versioning(**versions, VersioningConfiguration={"Status": "Enabled"})
    assert f"{package.model} has no versions, so its bytes cannot be pinned" in line


def test_a_report_that_says_something_else_after_staging_does_not_reach_prod(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry.approved()
    released.merge(promoted(released, package))
    entry = registry.sagemaker.describe_model_package(ModelPackageName=package.arn)
    registry.replace(
        entry["ModelMetrics"]["ModelQuality"]["Statistics"]["S3Uri"],
        json.dumps({"model": dict.fromkeys(DIGESTS, "0" * 64)}).encode(),
    )
    assert f"hash mismatch: the evaluation now says {'0' * 64} with the content" in refusal(
        released, capsys, *TO_PROD
    )


@pytest.mark.parametrize("status", ["Pending", "InProgress", "Failed"])
def test_a_version_that_is_not_complete_is_refused(
    released: Checkout, registry: Registry, good: Package, status: str
) -> None:
    package = replace(describe(registry.target, good.arn), status=status)
    checked = Verification(registry.target, registry.names, package, Repository(released.root, {}))
    with pytest.raises(PromotionError, match=f"its status is {status}, not Completed"):
        checked.release()


def test_an_archive_that_is_gone_is_refused(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry.approved()
    registry.s3.delete_object(
        Bucket=registry.bucket, Key=package.model.removeprefix(f"s3://{registry.bucket}/")
    )
    assert f"{package.model} is gone" in refusal(
        released, capsys, *TO_STAGING, "--package", package.version
    )


def test_what_was_written_again_after_staging_does_not_reach_prod(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry.approved()
    released.merge(promoted(released, package))
    registry.replace(
        package.model, archive({"model.pt": WEIGHTS, "code/inference.py": b"changed by hand"})
    )
    line = refusal(released, capsys, *TO_PROD)
    assert (
        f"{package.model} was written again after it was pinned, and a deployment brings the"
        " newest version" in line
    )
    assert f"pinned is {pinned(released).model_data_version_id}" in line


def test_what_was_removed_after_staging_does_not_reach_prod(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry.approved()
    released.merge(promoted(released, package))
    registry.s3.delete_object(
        Bucket=registry.bucket, Key=package.model.removeprefix(f"s3://{registry.bucket}/")
    )
    assert f"{package.model} was removed after it was pinned" in refusal(released, capsys, *TO_PROD)


def test_a_pinned_hash_that_is_not_that_of_the_bytes_is_refused(
    released: Checkout, good: Package, capsys: pytest.CaptureFixture[str]
) -> None:
    released.merge(promoted(released, good))
    file = released.root / "environments/staging.release.yaml"
    file.write_text(file.read_text().replace(pinned(released).model_data_sha256, "0" * 64))
    released.commit("Tamper")
    assert f"pinned is {'0' * 64} with" in refusal(released, capsys, *TO_PROD)


def test_a_definition_that_is_not_the_deployed_one_any_more_is_refused(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    package, client, name = registry.approved(), registry.sagemaker, registry.names.pipeline
    before = client.describe_pipeline(PipelineName=name)["PipelineDefinition"]
    client.update_pipeline(PipelineName=name, PipelineDefinition=before.replace('"x"', '"y"'))
    line = refusal(released, capsys, *TO_STAGING, "--package", package.version)
    client.update_pipeline(PipelineName=name, PipelineDefinition=before)
    assert "hash mismatch: the definition that trained it is" in line
    assert "the one deployed in dev now is" in line


def test_code_that_is_in_no_commit_is_refused(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry.approved(code={**CODE, "train.py": "print('not committed')\n"})
    line = refusal(released, capsys, *TO_STAGING, "--package", package.version)
    assert (
        "no commit up to the one checked out has the files in training_code/mnist/pytorch that"
        " trained it" in line
    )


@pytest.mark.parametrize(
    ("served", "says"),
    [
        (
            {"code/inference.py": b"changed by hand"},
            "code/inference.py is not training_code/mnist/pytorch/inference.py of the commit"
            " {head}",
        ),
        (
            {**SERVED, "code/sitecustomize.py": b""},
            "code/sitecustomize.py is not in the commit {head}, which has no training_code/",
        ),
        (
            {},
            "code/inference.py is missing, which the commit {head} has in"
            " training_code/mnist/pytorch",
        ),
    ],
)
def test_serving_code_that_is_not_the_commits_is_refused_and_the_file_named(
    released: Checkout,
    registry: Registry,
    capsys: pytest.CaptureFixture[str],
    served: dict[str, bytes],
    says: str,
) -> None:
    package = registry.approved(served=served)
    line = refusal(released, capsys, *TO_STAGING, "--package", package.version)
    assert (
        f"hash mismatch in {package.model}: {says.format(head=released.git('rev-parse', 'HEAD'))}"
        in line
    )


def test_a_version_whose_container_takes_its_code_from_elsewhere_is_refused(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry.approved(environment={"SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model"})
    line = refusal(released, capsys, *TO_STAGING, "--package", package.version)
    assert (
        "takes its code from elsewhere than code/ of the archive:"
        " SAGEMAKER_SUBMIT_DIRECTORY=/opt/ml/model" in line
    )


def test_an_archive_that_was_changed_and_pinned_by_hand_goes_no_further_than_staging(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry.approved()
    released.merge(promoted(released, package))
    new_archive = archive({"model.pt": WEIGHTS, "code/inference.py": b"changed by hand"})
    registry.replace(package.model, new_archive)
    head = registry.s3.head_object(
        Bucket=registry.bucket, Key=package.model.removeprefix(f"s3://{registry.bucket}/")
    )
    file, before = released.root / "environments/staging.release.yaml", pinned(released)
    now = file.read_text().replace(
        before.model_data_sha256, hashlib.sha256(new_archive).hexdigest()
    )
    file.write_text(now.replace(before.model_data_version_id, head["VersionId"]))
    released.commit("Pin by hand")
    assert "hash mismatch: the evaluation now says" in refusal(released, capsys, *TO_PROD)


def test_a_pinned_commit_that_is_not_in_the_repository_is_refused(
    released: Checkout, good: Package, capsys: pytest.CaptureFixture[str]
) -> None:
    released.merge(promoted(released, good))
    file = released.root / "environments/staging.release.yaml"
    file.write_text(file.read_text().replace(pinned(released).code_commit, "0" * 40))
    released.commit("Tamper")
    line = refusal(released, capsys, *TO_PROD)
    assert f"the commit {'0' * 40}, which is pinned, is not in this repository" in line
    assert line.endswith("fetch the whole history")


def test_a_version_that_does_not_say_where_it_comes_from_is_refused(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry.approved(metadata={"execution_id": "abcdefabcdef"})
    assert "no execution abcdefabcdef" in refusal(
        released, capsys, *TO_STAGING, "--package", package.version
    )
    silent = registry.approved(metadata={"made-by": "hand"})
    assert "no execution_id in CustomerMetadataProperties" in refusal(
        released, capsys, *TO_STAGING, "--package", silent.version
    )


def test_an_image_whose_digest_is_gone_is_refused_on_the_way_to_prod(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    image, repository = registry.own_image()
    released.merge(promoted(released, registry.approved(image=image)))
    registry.target.client("ecr").delete_repository(repositoryName=repository, force=True)
    line = refusal(released, capsys, *TO_PROD)
    assert f"its image is gone: ECR has no {image}@{pinned(released).image_digest}" in line


def test_an_image_that_was_never_there_is_refused(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    image = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/none-{uuid.uuid4().hex[:8]}:v1"
    package = registry.approved(image=image)
    assert f"ECR has no {image}" in refusal(
        released, capsys, *TO_STAGING, "--package", package.version
    )
