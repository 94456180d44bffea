"""A training section and today's date in; what to know of AWS's patches for its images out.

The date comes in as a value: nothing that makes a template reads the clock.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

from config.settings import Strategy, Training
from pipelines.launch import own_image, source_code, tables
from pipelines.launch.availability import SMDDP
from pipelines.launch.own_image import TITLES
from pipelines.launch.refusals import chosen


def warnings_of(
    training: Training, today: datetime.date, root: Path | None = None
) -> Iterator[str]:
    """One line if AWS's images of the framework version get no more patches, or if that is not
    known; none for the user's own image.
    """
    if own_image.is_unknown(training):
        return
    strategy, _ = chosen(training, source_code.read(root, training))
    key = "training.image_uri" if training.image_uri else "training.framework_version"
    tags = tables.image_tags(training.framework).get(training.framework_version)
    images = f"AWS's images of {TITLES[training.framework]} {training.framework_version}"
    if tags is None or tags.end_of_patch is None:
        yield (
            f"{key}: until when {images} get patches is not known here; see"
            " pipelines/launch/images.yaml"
        )
    elif tags.end_of_patch < today:
        yield (
            f"{key}: {images} have had no patches since {tags.end_of_patch};"
            f" {_instead(training, strategy, today)}"
        )


def _instead(training: Training, strategy: Strategy, today: datetime.date) -> str:
    """Versions that are patched today and that the strategy can use."""
    known = tables.image_tags(training.framework)
    patched = [
        version
        for version, tags in known.items()
        if tags.end_of_patch and tags.end_of_patch >= today
    ]
    if strategy in SMDDP:
        patched = [
            version for version in patched if version in tables.smddp_releases(training.framework)
        ]
        return (
            f"patched and with smddp: {', '.join(patched)}"
            if patched
            else "no image that contains smddp is patched any more"
        )
    return (
        f"patched: {', '.join(patched)}"
        if patched
        else "no version in the table is patched any more; name a newer image in training.image_uri"
    )
