"""Objects of S3 and images of ECR by their addresses."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from shoal.aws.target import Target

NO_OBJECT = frozenset({"404", "NotFound", "NoSuchKey", "NoSuchBucket", "NoSuchVersion"})
"""Error codes of S3 for what is not there; a HEAD request's answer has only the number."""


def object_at(uri: str) -> dict[str, str]:
    """Return the arguments by which S3's requests name the object at s3://BUCKET/KEY."""
    place = urlsplit(uri)
    return {"Bucket": place.netloc, "Key": place.path.lstrip("/")}


@dataclass(frozen=True)
class EcrImage:
    """The image ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY[:TAG][@DIGEST]."""

    account: str
    region: str
    repository: str
    tag: str
    digest: str

    @classmethod
    def of(cls, uri: str) -> EcrImage | None:
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

    def digests(self, target: Target, *ids: dict[str, str]) -> set[str]:
        """Return the digests that its repository has of itself, or of `ids`."""
        ecr = target.in_region(self.region).client("ecr")
        request = {"registryId": self.account, "repositoryName": self.repository}
        try:
            images = ecr.batch_get_image(**request, imageIds=list(ids or [self.id]))["images"]
        except ecr.exceptions.RepositoryNotFoundException:
            return set()
        return {str(image["imageId"]["imageDigest"]) for image in images}
