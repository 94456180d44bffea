"""What the URI of a training image says of it: only AWS's own tags say something."""

import re
from dataclasses import dataclass

from shoal.launch import tables

ECR_IMAGE = re.compile(
    r"^(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<repository>[^:@]+)"
)
# After the grammar of github.com/distribution/reference (reference.go); the registry is required.
_URI = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)+"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(@sha256:(?P<digest>[0-9a-f]+))?"
)
_AWS_TAG = re.compile(
    r"/(?:huggingface-)?(?P<framework>pytorch|tensorflow)(?:-training)?:"
    r"(?P<version>\d+\.\d+(?:\.\d+)?)-(?:transformers[\d.]+-)?(?:(?P<device>gpu|cpu)-)?"
)
_CLASSICAL_TAG = re.compile(
    r"/sagemaker-(?P<framework>scikit-learn|xgboost):(?P<version>\d+\.\d+-\d+)(-|$)"
)
_FOR_EC2 = re.compile(r":[^@]*-ec2(-|$)")


@dataclass(frozen=True)
class AwsImage:
    """What the tag of one of AWS's images says."""

    framework: str
    version: str
    """Of the framework; two numbers or three, as in the tag."""
    device: str | None
    python: str | None
    cuda: str | None

    @property
    def full_version(self) -> str:
        """The version as `framework_version` is written; `.0` follows a tag with two numbers."""
        return self.version if self.version.count(".") > 1 else f"{self.version}.0"

    def has_version(self, version: str) -> bool:
        return f"{version}.".startswith(f"{self.version}.")


def aws_image(uri: str | None) -> AwsImage | None:
    """Return what the tag says; None if the image is not one of AWS's, or its tag says nothing."""
    if uri is None or not is_from_aws(uri):
        return None
    if match := _CLASSICAL_TAG.search(uri):
        is_sklearn, version = match["framework"] == "scikit-learn", match["version"]
        framework, device = ("sklearn", "cpu") if is_sklearn else ("xgboost", None)
        python = tables.python_in(uri)
        return AwsImage(framework, version.replace("-", "."), device, python, None)
    if not (match := _AWS_TAG.search(uri)):
        return None
    cuda = tables.cuda_in(uri)
    device = match["device"] or ("gpu" if cuda else None)
    return AwsImage(match["framework"], match["version"], device, tables.python_in(uri), cuda)


def repository(uri: str) -> str:
    """Return the name of the repository in ECR, or nothing for an image elsewhere."""
    match = ECR_IMAGE.match(uri)
    return match["repository"] if match else ""


def region(uri: str) -> str | None:
    """Return the region of the registry in ECR; None for an image elsewhere."""
    match = ECR_IMAGE.match(uri)
    return match["region"] if match else None


def is_from_aws(uri: str) -> bool:
    """Return whether the image lies in AWS's own registry of the region."""
    match = ECR_IMAGE.match(uri)
    if match is None:
        return False
    return tables.registry(match["region"], match["repository"]) == match["account"]


def other_purpose(uri: str | None) -> str | None:
    """Return what an image of AWS's is for, unless it is for training."""
    if uri is None or not is_from_aws(uri):
        return None
    if "inference" in repository(uri):
        return "serves models"
    return "is made for EC2" if _FOR_EC2.search(uri) else None


def is_pinned(uri: str) -> bool:
    """Return whether the URI is complete, with a digest or a tag other than `latest`."""
    match = _URI.fullmatch(uri)
    return match is not None and (match["digest"] or match["tag"] or "latest") != "latest"
