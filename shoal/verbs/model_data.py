"""A model's archive in S3: where it lies and the version that is pinned go in; whether that is
still what SageMaker would load comes out.

A model package names an URL without a version, so SageMaker loads the newest object there, whatever
was pinned. Source: API reference, ModelPackageContainerDefinition, whose ModelDataUrl has no place
for one.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from shoal.verbs.target import Target

_NOT_FOUND = 404


def written_again(target: Target, url: str, version_id: str) -> str | None:
    """What happened to `url` since `version_id` was pinned, in words; None where that is its newest
    version.
    """
    place = urlsplit(url)
    try:
        newest = (
            target.client("s3")
            .head_object(Bucket=place.netloc, Key=place.path.lstrip("/"))
            .get("VersionId")
        )
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == _NOT_FOUND:
            return (
                f"{url} was removed after it was pinned (version {version_id}), and SageMaker loads"
                " the newest version"
            )
        raise
    if newest == version_id:
        return None
    now = f"its newest version is {newest}, pinned is {version_id}"
    return (
        f"{url} was written again after it was pinned, and SageMaker loads the newest version:"
        f" {now}"
    )
