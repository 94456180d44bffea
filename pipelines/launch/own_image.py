"""An image URI that the user chose instead of the table's in; what its name shows to be wrong or
worth knowing out.

Only AWS's own images say in their tag what is in them; what is in another image nobody can tell
from its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from config.errors import Problem
from config.settings import Training
from pipelines.launch import tables
from pipelines.launch.source_code import is_ours

KEY = "training.image_uri"
TITLES = {"pytorch": "PyTorch", "tensorflow": "TensorFlow"}
_ECR = re.compile(
    r"^(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<repository>[^:@]+)"
)
_AWS_TAG = re.compile(
    r"/(?:huggingface-)?(?P<framework>pytorch|tensorflow)(?:-training)?:"
    r"(?P<version>\d+\.\d+(?:\.\d+)?)-(?:transformers[\d.]+-)?(?:(?P<device>gpu|cpu)-)?"
)
_FOR_EC2 = re.compile(r":[^@]*-ec2(-|$)")


@dataclass(frozen=True)
class AwsImage:
    """What the tag of an image of AWS's says."""

    framework: str
    version: str
    """Of the framework; two numbers or three, as in the tag."""
    device: str | None
    python: str | None
    cuda: str | None

    @property
    def full_version(self) -> str:
        """As `framework_version` is written; of a tag with two numbers the first patch version."""
        return self.version if self.version.count(".") > 1 else f"{self.version}.0"

    def is_of(self, version: str) -> bool:
        return f"{version}.".startswith(f"{self.version}.")


def aws_image(training: Training) -> AwsImage | None:
    """What `training.image_uri` says of itself; None if there is none, or if it is not one of AWS's
    whose tag says it.
    """
    uri = training.image_uri or ""
    tag = _AWS_TAG.search(uri) if _is_from_aws(uri) else None
    return (
        AwsImage(
            tag["framework"],
            tag["version"],
            tag["device"],
            tables.python_in(uri),
            tables.cuda_in(uri),
        )
        if tag
        else None
    )


def is_unknown(training: Training) -> bool:
    """Whether nobody can tell what is in the training image: the user's own, given or built."""
    return training.build_image is not None or (
        training.image_uri is not None and aws_image(training) is None
    )


def problems_of(training: Training) -> Iterator[Problem]:
    """Why `training.image_uri` cannot be the training image."""
    uri = training.image_uri
    if uri is None:
        return
    if not _is_pinned(uri):
        message = "must be a full image URI with a tag or a digest, and not :latest"
        yield Problem(
            KEY, message, "write registry/repository:tag or registry/repository@sha256:...", uri
        )
    if _is_from_aws(uri) and ("inference" in _repository(uri) or _FOR_EC2.search(uri)):
        what = "serves models" if "inference" in _repository(uri) else "is made for EC2"
        message = (
            f"is an image of AWS's that {what}: it does not start SageMaker's training toolkit, and"
            " the job would not train"
        )
        yield Problem(
            KEY, message, "take one from a -training repository whose tag ends with -sagemaker", uri
        )
    elif image := aws_image(training):
        yield from _contradictions(training, image)
    if is_ours(training):
        yield from _python_problems(training)


def _contradictions(training: Training, image: AwsImage) -> Iterator[Problem]:
    title = TITLES[image.framework]
    if image.framework != training.framework:
        message = f"is AWS's image of {title}, but framework is {training.framework}"
        yield Problem(
            KEY,
            message,
            f"set framework: {image.framework}, or take another image",
            training.image_uri,
        )
    elif not image.is_of(training.framework_version):
        message = (
            f"is AWS's image of {title} {image.version}, but framework_version is"
            f" {training.framework_version}"
        )
        yield Problem(
            KEY,
            message,
            f"set framework_version: {image.full_version}, or take another image",
            training.image_uri,
        )
    if image.device == "cpu" and tables.has_gpus(training.instance_type):
        message = f"is AWS's image for CPUs, but {training.instance_type} has GPUs"
        yield Problem(
            KEY, message, "take the -gpu- tag, or another instance type", training.image_uri
        )


def _python_problems(training: Training) -> Iterator[Problem]:
    """For our own scripts only; an image that says nothing of its Python can still have none that
    the framework version exists for.
    """
    least, image = tables.least_python(training.framework), aws_image(training)
    if image and image.python and tables.ordered(image.python) < tables.ordered(least):
        message = f"has Python {image.python}, and {training.source_dir} needs {least}"
        yield Problem(
            KEY, message, "take a later image, or name a source_dir of your own", training.image_uri
        )
    first = tables.first_with_least_python(training.framework)
    if image is None and tables.ordered(training.framework_version) < tables.ordered(first):
        message = (
            f"{training.source_dir} needs Python {least}, for which {TITLES[training.framework]}"
            f" exists from {first} on"
        )
        advice = f"use {first} or later in the image, or name a source_dir of your own"
        yield Problem("training.framework_version", message, advice, training.framework_version)


def notices_of(training: Training, region: str, label: str) -> Iterator[str]:
    """What nobody can check, and what looks unusual; `label` is the strategy that is to run."""
    uri = training.image_uri
    if uri is None:
        return
    place = _ECR.match(uri)
    if place and place["region"] != region:
        yield f"{KEY} lies in {place['region']}, but the job runs in {region}"
    starts_toolkit = _is_from_aws(uri) and tables.starts_toolkit(_repository(uri))
    if starts_toolkit and aws_image(training) is None:
        yield (
            f"{KEY} names AWS's image without a tag that says its version: nothing here can check"
            f" that it is {training.framework_version}"
        )
    if not starts_toolkit:
        yield f"{KEY} replaces AWS's image: nothing here can check what is in it"
        yield (
            f"{KEY} must set"
            f" SAGEMAKER_TRAINING_MODULE=sagemaker_{training.framework}_container.training:main in"
            " its environment: without it the training toolkit ignores the hyperparameters of"
            f" {label} and says nothing"
        )


def _repository(uri: str) -> str:
    place = _ECR.match(uri)
    return place["repository"] if place else ""


def _is_from_aws(uri: str) -> bool:
    place = _ECR.match(uri)
    return place is not None and tables.registry(place["region"]) == place["account"]


def _is_pinned(uri: str) -> bool:
    repository = uri.rpartition("/")[2]
    tag = repository.partition("@sha256:")[2] or repository.partition(":")[2]
    return (
        "/" in uri
        and not any(character.isspace() for character in uri)
        and tag not in ("", "latest")
    )
