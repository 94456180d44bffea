"""The newest checkpoint of a training that runs, as far as it has reached S3: what is not there is
lost with the instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.page.look import Look, seconds_between, time_text


def checkpoint_of(look: Look, job: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the newest object of the job's checkpoints, and its age; None where there is none, and
    of a job that has ended: `file` is below the folder, `seconds` are since its last change.
    """
    if not job or job.get("TrainingJobStatus") not in ("InProgress", "Stopping"):
        return None
    bucket, _, key = job.get("CheckpointConfig", {}).get("S3Uri", "")[5:].partition("/")
    if not bucket:
        return None
    with look.noting("checkpoint"):
        pages = look.place.target.client("s3").get_paginator("list_objects_v2")
        listed = pages.paginate(Bucket=bucket, Prefix=f"{key}/")
        objects = [each for page in listed for each in page.get("Contents", ())]
        if objects:
            newest = max(objects, key=lambda each: each["LastModified"])
            at = newest["LastModified"]
            file = newest["Key"].removeprefix(f"{key}/")
            return {"file": file, "at": time_text(at), "seconds": seconds_between(at, look.now)}
    return None
