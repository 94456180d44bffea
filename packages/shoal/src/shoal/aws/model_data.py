"""Whether a model's archive in S3 is still the one that was pinned.

A model package names a URL without a version, so SageMaker loads the newest object there. Source:
API reference, ModelPackageContainerDefinition, whose ModelDataUrl has no version.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from shoal.aws.target import Target

_NOT_FOUND = 404


def replacement_of(target: Target, url: str, version_id: str) -> str | None:
    """Return what happened to `url` since `version_id` was pinned, or None if that is the newest
    version.
    """
    location = urlsplit(url)
    try:
        newest = (
            target.client("s3")
            .head_object(Bucket=location.netloc, Key=location.path.lstrip("/"))
            .get("VersionId")
        )
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == _NOT_FOUND:
            return (
                f"{url} was removed after it was pinned (version {version_id}), and a deployment"
                " brings the newest version"
            )
        raise
    if newest == version_id:
        return None
    versions = f"its newest version is {newest}, pinned is {version_id}"
    return (
        f"{url} was written again after it was pinned, and a deployment brings the newest"
        f" version: {versions}"
    )
