"""Two bad releases: a committed mistake in the code that serves, and an archive that was changed
afterwards.

The mistake shows only after some answers, so it passes every test that asks a few. The changed
archive lacks the mistake: it is better, but it is in no commit.
"""

from __future__ import annotations

import io
import tarfile
from typing import Any
from urllib.parse import urlsplit

from shoal.aws.target import Target

GOOD_ANSWERS = 25
"""More than any check without load asks: the pipeline's test and the proof of a deployment ask ten
digits.
"""
_CODE = "code/inference.py"
_CHANGED = "training/changed-by-hand/output/model.tar.gz"
"""Where a person may write, as jobs may; not among the sealed models."""
_MISTAKE = f'''

_predict, _kept = predict_fn, []


def predict_fn(data, model):
    """Keeps every answer, for an analysis that is to come."""
    if len(_kept) == {GOOD_ANSWERS}:
        raise MemoryError("no room for another answer")
    _kept.append(_predict(data, model))
    return _kept[-1]
'''.encode()
_COPIED_FIELDS = (
    "ModelPackageGroupName",
    "InferenceSpecification",
    "ModelMetrics",
    "CustomerMetadataProperties",
)
_REGISTRY_FIELDS = ("ImageDigest", "ModelDataETag", "IsCheckpoint")
"""Fields of a container that the registry sets by itself."""


def with_mistake(code: bytes) -> bytes:
    """Return `code/inference.py` with the mistake."""
    return code + _MISTAKE


def register_changed_archive(target: Target, arn: str) -> str:
    """Register a copy of a version whose archive lacks the mistake; return its ARN.

    It waits for approval.
    """
    sagemaker, s3 = target.client("sagemaker"), target.client("s3")
    package = sagemaker.describe_model_package(ModelPackageName=arn)
    request = {key: package[key] for key in _COPIED_FIELDS if key in package}
    (container,) = request["InferenceSpecification"]["Containers"]
    location = urlsplit(container["ModelDataUrl"])
    archive = s3.get_object(Bucket=location.netloc, Key=location.path.lstrip("/"))["Body"].read()
    s3.put_object(Bucket=location.netloc, Key=_CHANGED, Body=without_mistake(archive))
    new_container = {
        name: value for name, value in container.items() if name not in _REGISTRY_FIELDS
    }
    new_container["ModelDataUrl"] = f"s3://{location.netloc}/{_CHANGED}"
    request["InferenceSpecification"] = request["InferenceSpecification"] | {
        "Containers": [new_container]
    }
    return str(
        sagemaker.create_model_package(**request, ModelApprovalStatus="PendingManualApproval")[
            "ModelPackageArn"
        ]
    )


def without_mistake(archive: bytes) -> bytes:
    """Return a model.tar.gz without the mistake in its code; other files stay as they are."""
    output = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as source,
        tarfile.open(fileobj=output, mode="w:gz") as destination,
    ):
        for member in source:
            _add(destination, member, source.extractfile(member))
    return output.getvalue()


def _add(destination: tarfile.TarFile, member: tarfile.TarInfo, file: Any) -> None:
    content = file.read() if file else b""
    if member.name.removeprefix("./") == _CODE:
        content = content.removesuffix(_MISTAKE)
        member.size = len(content)
    destination.addfile(member, io.BytesIO(content) if file else None)
