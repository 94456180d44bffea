"""Releases as environment files pin them."""

from __future__ import annotations

from typing import Any

from shoal.settings.sections.release import Release
from tests.tables import table

ARTIFACTS = "shoal-mnist-dev-artifacts-111122223333-us-east-1"
CONTENT: dict[str, Any] = table(__file__, "release.yaml")
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
