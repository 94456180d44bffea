"""Two ways to a release that is no good: a mistake in the code that serves, committed as anybody's;
and an archive changed by hand.

The mistake shows only after some answers, so that it passes every test that asks a few. By hand it
is taken out again, in a version of the registry of its own: the archive is better then, but it is
in no commit.
"""

from __future__ import annotations

import io
import tarfile
from typing import Any
from urllib.parse import urlsplit

from shoal.verbs.target import Target

GOOD_ANSWERS = 25
"""So many are enough for whoever looks at it without load: the pipeline's test asks ten digits, and
so does the proof of a deployment.
"""
_CODE = "code/inference.py"
_ARCHIVE = "/output/model.tar.gz"
"""How the key of a training's archive ends; consumers may read no other."""
_MISTAKE = f'''

_predict, _kept = predict_fn, []


def predict_fn(data, model):
    """Keeps every answer, for an analysis that is to come."""
    if len(_kept) == {GOOD_ANSWERS}:
        raise MemoryError("no room for another answer")
    _kept.append(_predict(data, model))
    return _kept[-1]
'''.encode()
_KEPT = (
    "ModelPackageGroupName",
    "InferenceSpecification",
    "ModelMetrics",
    "CustomerMetadataProperties",
)
_NOTED = ("ImageDigest", "ModelDataETag", "IsCheckpoint")
"""Of a container, by the registry itself."""


def with_mistake(code: bytes) -> bytes:
    """`code/inference.py` with the mistake."""
    return code + _MISTAKE


def register_by_hand(target: Target, arn: str) -> str:
    """A version of the registry as another, its archive without the mistake; returns its ARN.

    It waits for approval.
    """
    sagemaker, s3 = target.client("sagemaker"), target.client("s3")
    found = sagemaker.describe_model_package(ModelPackageName=arn)
    request = {key: found[key] for key in _KEPT if key in found}
    (container,) = request["InferenceSpecification"]["Containers"]
    place = urlsplit(container["ModelDataUrl"])
    archive = s3.get_object(Bucket=place.netloc, Key=place.path.lstrip("/"))["Body"].read()
    key = f"{place.path.lstrip('/').removesuffix(_ARCHIVE)}-by-hand{_ARCHIVE}"
    s3.put_object(Bucket=place.netloc, Key=key, Body=without_mistake(archive))
    changed = {name: value for name, value in container.items() if name not in _NOTED} | {
        "ModelDataUrl": f"s3://{place.netloc}/{key}"
    }
    request["InferenceSpecification"] = request["InferenceSpecification"] | {
        "Containers": [changed]
    }
    return str(
        sagemaker.create_model_package(**request, ModelApprovalStatus="PendingManualApproval")[
            "ModelPackageArn"
        ]
    )


def without_mistake(archive: bytes) -> bytes:
    """A model.tar.gz without the mistake in its code; every other file as it was."""
    made = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as source,
        tarfile.open(fileobj=made, mode="w:gz") as destination,
    ):
        for member in source:
            _add(destination, member, source.extractfile(member))
    return made.getvalue()


def _add(destination: tarfile.TarFile, member: tarfile.TarInfo, file: Any) -> None:
    content = file.read() if file else b""
    if member.name.removeprefix("./") == _CODE:
        content = content.removesuffix(_MISTAKE)
        member.size = len(content)
    destination.addfile(member, io.BytesIO(content) if file else None)
