"""Everything that `shoal promote` verifies is refused when it is not as it should be."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from local_kit.tables import rows
from shoal.aws.registry import describe
from shoal.errors import PromotionError
from shoal.page.results import MAX_BYTES
from shoal.repository import Repository
from shoal.settings.sections.serving import Severity
from shoal.verbs.promote.promotion import Verification, doubt_of_scan
from tests.cli.test_promote import TO_PROD, pinned
from tests.cli.trained import (
    CODE,
    SERVED,
    TO_STAGING,
    WEIGHTS,
    Checkout,
    Package,
    Refused,
    Registry,
    archive,
    promoted,
)
from tests.verbs.conftest import ACCOUNT, REGION

TRAINED = {"model.pt": WEIGHTS, **SERVED}
BY_HAND = {"code/inference.py": b"changed by hand"}
CHANGED_BY_HAND = archive({"model.pt": WEIGHTS, **BY_HAND})
NOWHERE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/none:v1"


def evaluation(digests: dict[str, str]) -> bytes:
    return json.dumps({"model": digests}).encode()


NO_DIGEST = "has null as `model.content_sha256`, where a sha256 belongs"
NO_NUMBER = "has no finite number as the metric"
LARGE = b"1" + b"0" * 400
REPORTS = [
    (b"not json", "is not JSON"),
    (b"\xff", "is not JSON"),
    (b"[" * 100_000, "is not JSON"),
    (b"[]", "is no JSON object"),
    (b'{"metrics": []}', "has [] as `metrics`, where an object belongs"),
    (b'{"metrics": null}', "has null as `metrics`, where an object belongs"),
    (b'{"model": null}', "has null as `model`, where an object belongs"),
    (b"{}", NO_DIGEST),
    (b'{"metrics": {}}' + b" " * MAX_BYTES + b"{}", NO_DIGEST),
    (b'{"metrics": {"accuracy": {"value": NaN}}}', f'{NO_NUMBER} "accuracy"'),
    (b'{"metrics": {"accuracy": {"value": 1e400}}}', f'{NO_NUMBER} "accuracy"'),
    (b'{"metrics": {"images": {"value": ' + LARGE + b"}}}", f'{NO_NUMBER} "images"'),
]
# The archive that lies there instead of the evaluated one; the second has a decoy.
FORGED = [
    {"model.pt": b"other weights", **SERVED},
    {"model.pt": b"other weights", "decoy.bin": WEIGHTS, **SERVED},
    {"model.pt": WEIGHTS, "1/saved_model.pb": b"other graph", **SERVED},
    {"model.pt": WEIGHTS, "2/saved_model.pb": b"graph", **SERVED},
]
FOLDER = "training_code/mnist/pytorch"
MISMATCH = "hash mismatch in {model}: code/"
SUBMITTED = {"SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model"}
UNKNOWN_CONTENT = {
    "archive_sha256": hashlib.sha256(archive(TRAINED)).hexdigest(),
    "content_sha256": "0" * 64,
}
"""A container would answer a digest that nobody expects."""
FOREIGN: list[tuple[dict[str, Any], str]] = [
    ({"image": "docker.io/library/python:3.12"}, "docker.io/library/python:3.12 is not in ECR"),
    ({"image": NOWHERE}, f"ECR has no {NOWHERE}"),
    ({"is_measured": False}, "it has no report of an evaluation (ModelMetrics)"),
    ({"report": evaluation(UNKNOWN_CONTENT)}, "in {model}: the content of the archive is"),
    (
        {"code": {**CODE, "train.py": "print('not committed')\n"}},
        f"no commit up to the one checked out has the files in {FOLDER} that trained it",
    ),
    (
        {"served": BY_HAND},
        f"{MISMATCH}inference.py is not {FOLDER}/inference.py of the commit {{head}}",
    ),
    (
        {"served": {**SERVED, "code/sitecustomize.py": b""}},
        f"{MISMATCH}sitecustomize.py is not in the commit {{head}}, which has no training_code/",
    ),
    (
        {"served": {}},
        f"{MISMATCH}inference.py is missing, which the commit {{head}} has in {FOLDER}",
    ),
    (
        {"environment": SUBMITTED},
        "elsewhere than code/ of the archive: SAGEMAKER_SUBMIT_DIRECTORY=/opt/ml/model",
    ),
    ({"metadata": {"execution_id": "abcdefabcdef"}}, "no execution abcdefabcdef"),
    ({"metadata": {"made-by": "hand"}}, "no execution_id in CustomerMetadataProperties"),
    # Models that are kept as files.
    ({"files": {**TRAINED, "model.pt": b"other"}}, "the list of files below {model} is"),
    ({"files": {**TRAINED, "labels.json": b"{}"}}, "the list of files below {model} is"),
    ({"files": {**TRAINED, "a//b": b""}}, "has 'a//b', which cannot be a file's name"),
    (
        {"files": {**TRAINED, **BY_HAND}, "served": {**SERVED, **BY_HAND}},
        f"{MISMATCH}inference.py is not training_code/",
    ),
]


@pytest.mark.parametrize(
    ("registered", "says"),
    [
        *(
            ({"report": report}, f"evaluation.json {says}; mend what wrote it, and train again")
            for report, says in REPORTS
        ),
        *(
            ({"stored": archive(files)}, "hash mismatch: the sha256 of {model} is")
            for files in FORGED
        ),
        *(
            (
                {"status": status},
                f"it is {status}, not Approved; an approver runs `shoal release approve dev"
                " {version}`",
            )
            for status in ("PendingManualApproval", "Rejected")
        ),
        *FOREIGN,
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_not_as_the_pipeline_and_an_approver_leave_it_is_refused(
    released: Checkout, registry: Registry, refused: Refused, registered: dict[str, Any], says: str
) -> None:
    package = registry.approved(**registered)
    line = refused(*TO_STAGING, "--package", package.version)
    head = released.git("rev-parse", "HEAD")
    assert says.format(model=package.model, version=package.version, head=head) in line


@pytest.mark.parametrize("status", ["Pending", "InProgress", "Failed"])
def test_a_version_that_is_not_complete_is_refused(
    released: Checkout, registry: Registry, good: Package, status: str
) -> None:
    package = replace(describe(registry.target, good.arn), status=status)
    checked = Verification(registry.target, registry.names, package, Repository(released.root, {}))
    with pytest.raises(PromotionError, match=f"its status is {status}, not Completed"):
        checked.release()


def test_an_archive_that_is_gone_is_refused(registry: Registry, refused: Refused) -> None:
    package = registry.approved()
    registry.remove(package.model)
    assert f"{package.model} is gone" in refused(*TO_STAGING, "--package", package.version)


def test_an_archive_that_is_not_sealed_is_refused(registry: Registry, refused: Refused) -> None:
    url = f"s3://{registry.bucket}/training/abc/output/model.tar.gz"
    registry.replace(url, archive(TRAINED))
    package = registry.approved(container={"ModelDataUrl": url})
    line = refused(*TO_STAGING, "--package", package.version)
    assert f"{url} is not sealed, so a job may write it again" in line


def test_an_archive_without_versions_is_refused(registry: Registry, refused: Refused) -> None:
    package, versions = registry.register(), {"Bucket": registry.bucket}
    registry.s3.put_bucket_versioning(**versions, VersioningConfiguration={"Status": "Suspended"})
    try:
        registry.replace(package.model, archive(TRAINED))
        registry.judge(package, "Approved")
        line = refused(*TO_STAGING, "--package", package.version)
    finally:
        registry.s3.put_bucket_versioning(**versions, VersioningConfiguration={"Status": "Enabled"})
    assert f"{package.model} has no versions, so its bytes cannot be pinned" in line


def test_a_definition_of_before_is_refused(registry: Registry, refused: Refused) -> None:
    package, client, name = registry.approved(), registry.sagemaker, registry.names.pipeline
    before = client.describe_pipeline(PipelineName=name)["PipelineDefinition"]
    client.update_pipeline(PipelineName=name, PipelineDefinition=before.replace('"x"', '"y"'))
    line = refused(*TO_STAGING, "--package", package.version)
    client.update_pipeline(PipelineName=name, PipelineDefinition=before)
    assert "hash mismatch: the definition that trained it is" in line
    assert "the one deployed in dev now is" in line


def pin_by_hand(checkout: Checkout, **pins: str) -> None:
    """Commit other values of what staging pins."""
    file, before = checkout.root / "environments/staging.release.yaml", pinned(checkout)
    text = file.read_text()
    for key, value in pins.items():
        text = text.replace(getattr(before, key), value)
    file.write_text(text)
    checkout.commit("Pin by hand")


def test_another_report_is_refused(registry: Registry, staged: Package, refused: Refused) -> None:
    entry = registry.sagemaker.describe_model_package(ModelPackageName=staged.arn)
    registry.replace(
        entry["ModelMetrics"]["ModelQuality"]["Statistics"]["S3Uri"],
        evaluation({"archive_sha256": "0" * 64, "content_sha256": "0" * 64}),
    )
    line = refused(*TO_PROD)
    assert f"hash mismatch: the evaluation now says {'0' * 64} with the content" in line


def test_what_was_written_again_after_staging_does_not_reach_prod(
    released: Checkout, registry: Registry, staged: Package, refused: Refused
) -> None:
    registry.replace(staged.model, CHANGED_BY_HAND)
    line = refused(*TO_PROD)
    assert (
        f"{staged.model} was written again after it was pinned, and a deployment brings the"
        " newest version" in line
    )
    assert f"pinned is {pinned(released).model_data_version_id}" in line
    head = registry.s3.head_object(**registry.place(staged.model))
    digest, version = hashlib.sha256(CHANGED_BY_HAND).hexdigest(), head["VersionId"]
    pin_by_hand(released, model_data_sha256=digest, model_data_version_id=version)
    assert "hash mismatch: the evaluation now says" in refused(*TO_PROD)


@pytest.mark.usefixtures("staged")
def test_a_pinned_hash_of_other_bytes_is_refused(released: Checkout, refused: Refused) -> None:
    pin_by_hand(released, model_data_sha256="0" * 64)
    assert f"pinned is {'0' * 64} with" in refused(*TO_PROD)


@pytest.mark.usefixtures("staged")
def test_a_pinned_metric_that_nobody_measured_is_refused(
    released: Checkout, refused: Refused
) -> None:
    file = released.root / "environments/staging.release.yaml"
    file.write_text(file.read_text().replace("accuracy: 0.9918", "accuracy: 0.9999"))
    released.commit("Pin a better one")
    line = refused(*TO_PROD)
    assert "the evaluation says {'accuracy': 0.9918, 'images': 10000}, pinned is {" in line


@pytest.mark.usefixtures("staged")
def test_a_pinned_commit_of_elsewhere_is_refused(released: Checkout, refused: Refused) -> None:
    pin_by_hand(released, code_commit="0" * 40)
    line = refused(*TO_PROD)
    assert f"the commit {'0' * 40}, which is pinned, is not in this repository" in line
    assert line.endswith("fetch the whole history")


@pytest.mark.usefixtures("staged")
def test_a_pinned_commit_that_did_not_train_is_refused(
    released: Checkout, refused: Refused
) -> None:
    (released.root / FOLDER / "train.py").write_text("print('never trained')\n")
    commit = released.commit("Change the code")
    pin_by_hand(released, code_commit=commit)
    says = f"hash mismatch: the commit {commit}, which is pinned, does not have the files in"
    assert says in refused(*TO_PROD)


def test_an_image_gone_is_refused(released: Checkout, registry: Registry, refused: Refused) -> None:
    image, repository = registry.own_image()
    released.merge(promoted(released, registry.approved(image=image)))
    registry.target.client("ecr").delete_repository(repositoryName=repository, force=True)
    digest = pinned(released).image_digest
    assert f"its image is gone: ECR has no {image}@{digest}" in refused(*TO_PROD)


@pytest.mark.parametrize(
    ("status", "counts", "limit", "what"), rows(__file__, "cases.yaml", "findings")
)
def test_findings_as_bad_as_the_limit_are_refused(
    status: str, counts: dict[str, int], limit: str, what: str | None
) -> None:
    doubt = doubt_of_scan(status, counts, Severity(limit))
    assert (doubt and doubt[0]) == what


@pytest.mark.parametrize(("status", "comes"), rows(__file__, "cases.yaml", "waited_for"))
def test_nobody_is_told_to_wait_for_a_scan_that_does_not_come(status: str, comes: bool) -> None:
    doubt = doubt_of_scan(status, {}, Severity.CRITICAL)
    assert doubt is not None
    assert ("wait for its end" in doubt[1]) == comes


@pytest.mark.parametrize(
    ("is_own", "says"),
    [(True, "is not there, and serving.refuse_findings: low"), (False, "tells no scan")],
)
def test_an_image_without_a_scan_is_refused(
    released: Checkout, registry: Registry, refused: Refused, is_own: bool, says: str
) -> None:
    file = released.root / "environments" / "staging.yaml"
    content = yaml.safe_load(file.read_text())
    content["serving"] = {**(content.get("serving") or {}), "refuse_findings": "low"}
    file.write_text(yaml.safe_dump(content))
    released.commit("Refuse findings")
    own = {"image": registry.own_image()[0]} if is_own else {}
    assert says in refused(*TO_STAGING, "--package", registry.approved(**own).version)
