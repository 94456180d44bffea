"""Releases as environment files pin them."""

from __future__ import annotations

from typing import Any

from shoal.settings.sections.release import Release

ARTIFACTS = "shoal-mnist-dev-artifacts-111122223333-us-east-1"
CONTENT: dict[str, Any] = {
    "model_package_arn": "arn:aws:sagemaker:us-east-1:111122223333:model-package/shoal-mnist-dev/3",
    "model_package_version": 3,
    "image_uri": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-cpu",
    "image_digest": f"sha256:{'1' * 64}",
    "environment": {"SAGEMAKER_PROGRAM": "inference.py"},
    "model_data_url": f"s3://{ARTIFACTS}/models/{'2' * 64}/model.tar.gz",
    "model_data_version_id": "null-is-no-version",
    "model_data_sha256": "2" * 64,
    "content_sha256": "5" * 64,
    "definition_sha256": "3" * 64,
    "code_commit": "4" * 40,
    "metrics": {"accuracy": 0.9918, "images": 10000},
    "approved_by": "arn:aws:sts::111122223333:assumed-role/scientist/ada",
    "approved_at": "2026-11-20T09:30:00Z",
}
RELEASE = Release(**CONTENT)


def trained_by(name: str, region: str) -> dict[str, Any]:
    """Return the content of a release that the environment of that name trained itself."""
    ours, dev = (f"shoal-mnist-{name}", region), ("shoal-mnist-dev", "us-east-1")
    changed = {key: CONTENT[key] for key in ("model_package_arn", "model_data_url")}
    for before, after in zip(dev, ours, strict=True):
        changed = {key: text.replace(before, after) for key, text in changed.items()}
    return CONTENT | changed


def numbered(number: int) -> Release:
    arn = f"{CONTENT['model_package_arn'][:-1]}{number}"
    return Release(
        **CONTENT
        | {
            "model_package_arn": arn,
            "model_package_version": number,
            "model_data_url": f"s3://bucket/{number}.tar.gz",
        }
    )
