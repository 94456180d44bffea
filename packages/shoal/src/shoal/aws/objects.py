"""Objects of S3, images of ECR and parameters by their addresses."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from shoal.aws.target import Target, items
from shoal.errors import error_code

NO_OBJECT = frozenset({"404", "NotFound", "NoSuchKey", "NoSuchBucket", "NoSuchVersion"})
"""Error codes of S3 for what is not there; a HEAD request's answer has only the number."""


def object_at(uri: str) -> dict[str, str]:
    """Return the arguments by which S3's requests name the object at s3://BUCKET/KEY.

    Every character of the key is the key's: `//`, `?` and `#` too.
    """
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": key}


def objects_at(target: Target, uri: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects below a prefix as a listing has them, by their names relative to it."""
    bucket, prefix = object_at(uri).values()
    for each in items(target.client("s3"), "list_objects_v2", Bucket=bucket, Prefix=prefix):
        yield each["Key"].removeprefix(prefix), each


def has_files(target: Target, uri: str) -> bool:
    """Return whether S3 has an object below a prefix."""
    try:
        return next(objects_at(target, uri), None) is not None
    except ClientError as error:
        if error_code(error) in NO_OBJECT:
            return False
        raise


def parameter(target: Target, name: str) -> str | None:
    """Return the value of a parameter of Systems Manager's; None where there is none."""
    ssm = target.client("ssm")
    try:
        return str(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    except ssm.exceptions.ParameterNotFound:
        return None


def remove_parameters(target: Target, path: str) -> None:
    """Remove the parameters below `path`."""
    ssm = target.client("ssm")
    for each in [*items(ssm, "get_parameters_by_path", Path=path, Recursive=True)]:
        ssm.delete_parameter(Name=each["Name"])


@dataclass(frozen=True)
class EcrImage:
    """The image ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY[:TAG][@DIGEST]."""

    account: str
    region: str
    repository: str
    tag: str
    digest: str

    @classmethod
    def of(cls, uri: str) -> "EcrImage | None":
        """Return the image, or None if it is not in ECR."""
        host, _, path = uri.partition("/")
        account, *parts = host.split(".")
        if parts[:2] != ["dkr", "ecr"] or len(parts) < 3:
            return None
        name, _, digest = path.partition("@")
        repository, _, tag = name.partition(":")
        return cls(account, parts[2], repository, tag, digest)

    @property
    def id(self) -> dict[str, str]:
        """The argument by which ECR's requests name it: by its digest, or else by its tag."""
        if self.digest:
            return {"imageDigest": self.digest}
        return {"imageTag": self.tag or "latest"}

    def scan(self, target: Target) -> tuple[str, dict[str, int]]:
        """Return the status of the image's scan, "" without one, and findings by severity."""
        ecr = target.in_region(self.region).client("ecr")
        request = {"registryId": self.account, "repositoryName": self.repository}
        try:
            scan = ecr.describe_image_scan_findings(**request, imageId=self.id, maxResults=1)
        except ecr.exceptions.ScanNotFoundException:
            return "", {}
        counts = scan.get("imageScanFindings", {}).get("findingSeverityCounts", {})
        return scan["imageScanStatus"]["status"], counts

    def digests(self, target: Target, *ids: dict[str, str]) -> set[str]:
        """Return the digests that its repository has of itself, or of `ids`."""
        ecr = target.in_region(self.region).client("ecr")
        request = {"registryId": self.account, "repositoryName": self.repository}
        try:
            images = ecr.batch_get_image(**request, imageIds=list(ids or [self.id]))["images"]
        except ecr.exceptions.RepositoryNotFoundException:
            return set()
        return {str(image["imageId"]["imageDigest"]) for image in images}
