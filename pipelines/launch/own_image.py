"""An image URI that the user chose instead of the table's in; what its name shows to be wrong or worth knowing out.

Only AWS's own images say in their tag what is in them; what is in another image nobody can tell from its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from config.errors import Problem
from config.settings import Training
from pipelines.launch import tables

KEY = "training.image_uri"
TITLES = {"pytorch": "PyTorch", "tensorflow": "TensorFlow"}
_ECR = re.compile(r"^(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<repository>[^:@]+)")
_AWS_TAG = re.compile(r"/(?P<framework>pytorch|tensorflow)-training:(?P<version>\d+\.\d+\.\d+)-(?P<device>gpu|cpu)-")
_FOR_EC2 = re.compile(r":[^@]*-ec2(-|$)")


def problems_of(training: Training) -> Iterator[Problem]:
    """Why `training.image_uri` cannot be the training image."""
    uri = training.image_uri
    if uri is None:
        return
    if not _is_pinned(uri):
        message = "must be a full image URI with a tag or a digest, and not :latest"
        yield Problem(KEY, message, "write registry/repository:tag or registry/repository@sha256:...", uri)
    if _is_from_aws(uri):
        yield from _problems_of_aws_image(training, uri)


def _problems_of_aws_image(training: Training, uri: str) -> Iterator[Problem]:
    if "inference" in _repository(uri) or _FOR_EC2.search(uri):
        what = "serves models" if "inference" in _repository(uri) else "is made for EC2"
        message = f"is an image of AWS's that {what}: it does not start SageMaker's training toolkit, and the job would not train"
        yield Problem(KEY, message, "take one from a -training repository whose tag ends with -sagemaker", uri)
        return
    tag = _AWS_TAG.search(uri)
    if tag is None:
        return
    if tag["framework"] != training.framework:
        message = f"is AWS's image of {TITLES[tag['framework']]}, but framework is {training.framework}"
        yield Problem(KEY, message, f"set framework: {tag['framework']}, or take another image", uri)
    elif tag["version"] != training.framework_version:
        message = f"is AWS's image of {TITLES[tag['framework']]} {tag['version']}, but framework_version is {training.framework_version}"
        yield Problem(KEY, message, f"set framework_version: {tag['version']}, or take another image", uri)
    if tag["device"] == "cpu" and tables.has_gpus(training.instance_type):
        message = f"is AWS's image for CPUs, but {training.instance_type} has GPUs"
        yield Problem(KEY, message, "take the -gpu- tag, or another instance type", uri)


def notices_of(training: Training, region: str, label: str) -> Iterator[str]:
    """What nobody can check, and what looks unusual; `label` is the strategy that is to run."""
    uri = training.image_uri
    if uri is None:
        return
    place = _ECR.match(uri)
    if place and place["region"] != region:
        yield f"{KEY} lies in {place['region']}, but the job runs in {region}"
    if not (_is_from_aws(uri) and tables.starts_toolkit(_repository(uri))):
        yield f"{KEY} replaces AWS's image: nothing here can check what is in it"
        yield (
            f"{KEY} must set SAGEMAKER_TRAINING_MODULE=sagemaker_{training.framework}_container.training:main in its environment: "
            f"without it the training toolkit ignores the hyperparameters of {label} and says nothing"
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
    return "/" in uri and not any(character.isspace() for character in uri) and tag not in ("", "latest")
