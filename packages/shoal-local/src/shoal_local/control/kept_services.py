"""Services that only keep what they are told: CodeBuild's projects, ECR's BatchGetImage, Service
Quotas of instance types by use and of the account; and the operations on tags, which differ in
names only.

A build is refused by name, because there is no Docker. Nothing ever says that an image was
built. This account's images are in moto's store. The images of other registries are the
container images that a runtime stands for.

A quota is 20 at first, or what FIRST_VALUES says, and limits no job. A request for another value is
granted at once, and that limits training jobs. Names are AWS's, codes of instance types are not.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
from moto.ecr.models import ECRBackend

from shoal_local.control.http.protocol import ApiCall, Handlers
from shoal_local.control.identity.identity import Identity
from shoal_local.errors import AwsError
from shoal_local.runtimes.catalog import image

Project = dict[str, Any]
NOT_FOUND = "ResourceNotFoundException"


@dataclass
class BuildProjects:
    """The account's build projects in this region."""

    identity: Identity
    _projects: dict[str, Project] = field(default_factory=dict)

    @property
    def operations(self) -> Handlers:
        return {
            "CreateProject": self._create,
            "UpdateProject": self._update,
            "DeleteProject": self._delete,
            "BatchGetProjects": self._get,
            "StartBuild": self._refuse_build,
        }

    def _create(self, call: ApiCall) -> Mapping[str, Any]:
        name = call.parameters["name"]
        if name in self._projects:
            raise AwsError("ResourceAlreadyExistsException", f"Project already exists: {name}")
        now = datetime.now(UTC)
        arn = self.identity.arn("codebuild", f"project/{name}")
        self._projects[name] = {**call.parameters, "arn": arn, "created": now, "lastModified": now}
        return {"project": self._projects[name]}

    def _update(self, call: ApiCall) -> Mapping[str, Any]:
        project = self._project(call.parameters["name"])
        project.update({**call.parameters, "lastModified": datetime.now(UTC)})
        return {"project": project}

    def _delete(self, call: ApiCall) -> Mapping[str, Any]:
        # as on AWS, deleting a project that does not exist is a success
        self._projects.pop(call.parameters["name"], None)
        return {}

    def _get(self, call: ApiCall) -> Mapping[str, Any]:
        names = call.parameters["names"]
        missing = [name for name in names if name not in self._projects]
        projects = [self._projects[name] for name in names if name not in missing]
        return {"projects": projects, **({"projectsNotFound": missing} if missing else {})}

    def _refuse_build(self, call: ApiCall) -> Mapping[str, Any]:
        name = self._project(call.parameters["projectName"])["name"]
        reason = (
            f"Shoal's emulator builds no container images (codebuild:StartBuild of {name}): there"
            " is no Docker here"
        )
        raise AwsError("InvalidInputException", reason)

    def _project(self, name: str) -> Project:
        if name not in self._projects:
            raise AwsError(NOT_FOUND, f"Project cannot be found: {name}")
        return self._projects[name]


USES = ("training", "processing", "inference")


_digests: set[str] = set()
"""Of the images that stand in for AWS's, whose registries are the same for every caller."""
_images_by_moto = ECRBackend.batch_get_image


def get_images(
    backend: ECRBackend,
    repository_name: str,
    registry_id: str | None = None,
    image_ids: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Answer BatchGetImage. What other registries have cannot be pulled, so it has no manifest."""
    if registry_id in {None, backend.account_id}:
        return _images_by_moto(backend, repository_name, registry_id, image_ids)
    names = {"registryId": registry_id, "repositoryName": repository_name}
    host = f"{registry_id}.dkr.ecr.{backend.region_name}.amazonaws.com/{repository_name}"
    standing_in = [(each, _stand_in(host, each)) for each in image_ids or []]
    why = {"failureCode": "ImageNotFound", "failureReason": "Requested image not found"}
    return {
        "images": [{**names, "imageId": image_id} for _, image_id in standing_in if image_id],
        "failures": [{"imageId": each, **why} for each, image_id in standing_in if not image_id],
    }


def _stand_in(host: str, image_id: Mapping[str, str]) -> dict[str, str] | None:
    """Return the image with its digest, a hash of the runtime that stands for it; None when no
    runtime does.

    The image can be asked for by digest once it was asked for by tag.
    """
    tag, digest = image_id.get("imageTag"), image_id.get("imageDigest", "")
    if tag is None:
        return {"imageDigest": digest} if f"{host}@{digest}" in _digests else None
    entry = next((match for use in USES if (match := image(f"{host}:{tag}", use))), None)
    if entry is None:
        return None
    content = f"{host}:{tag} {entry.runtime.base_version}".encode()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    _digests.add(f"{host}@{digest}")
    return {"imageTag": tag, "imageDigest": digest}


PATCHES: tuple[tuple[object, str, Any], ...] = ((ECRBackend, "batch_get_image", get_images),)


SERVICE, VPC, BUILDS = "sagemaker", "vpc", "codebuild"
NAMES = {
    SERVICE: "Amazon SageMaker",
    VPC: "Amazon Virtual Private Cloud (Amazon VPC)",
    BUILDS: "AWS CodeBuild",
}
DEFAULT_VALUE = 20.0
QUOTA_USES = (
    ("TrainingInstanceType", "training job usage"),
    ("TrainingInstanceType", "spot training job usage"),
    ("TrainingInstanceType", "training warm pool usage"),
    ("ProcessingInstanceType", "processing job usage"),
    ("TransformInstanceType", "transform job usage"),
    ("ProductionVariantInstanceType", "endpoint usage"),
)


SHARED = {
    SERVICE: {
        "Number of instances across all training jobs": "L-00C91CB5",
        "Number of instances across all spot training jobs": "L-93958082",
        "Maximum number of instances per training job": "L-622CFD70",
        "Maximum number of instances per spot training job": "L-DB62C864",
        "Longest run time for a training job": "L-33A961FD",
        "Size of EBS volume for a training job instance": "L-C5A266EB",
        "Number of instances across all processing jobs": "L-F311B08F",
        "Number of instances across all transform jobs": "L-60D2A6F0",
        "Number of instances across active endpoints": "L-7A3DF611",
        "Maximum number of instances per endpoint": "L-ED8DEE9B",
        "Maximum total concurrency that can be allocated across all serverless endpoints": (
            "L-96300102"
        ),
    },
    VPC: {"VPCs per Region": "L-F678F1CE"},
    BUILDS: {"Concurrently running builds for Linux/Large environment": "L-4DDC4A99"},
}
"""Quotas that a whole account shares, by service: name to AWS's code."""
FIRST_VALUES = {"L-33A961FD": 432_000.0, "L-C5A266EB": 1024.0}
"""By code, where it is not the default."""


@cache
def quotas_of(service: str) -> dict[str, str]:
    """Return a service's quotas, name to code: SageMaker's for each use of each instance type."""
    if service not in SHARED:
        message = f"Shoal's emulator has quotas of {', '.join(SHARED)} only, not {service}"
        raise AwsError("NoSuchResourceException", message)
    if service != SERVICE:
        return SHARED[service]
    model = botocore.session.Session().get_service_model(SERVICE)
    names = [
        f"{kind} for {use}"
        for shape, use in QUOTA_USES
        for kind in getattr(model.shape_for(shape), "enum", [])
    ]
    codes = {name: hashlib.sha256(name.encode()).hexdigest()[:8].upper() for name in names}
    return {name: f"L-{code}" for name, code in codes.items()} | SHARED[service]


@dataclass
class Quotas:
    """The account's quotas in this region."""

    identity: Identity
    capacity: Path | None = None
    _values: dict[tuple[str, str], float] = field(default_factory=dict)
    """What was granted, by service and name."""

    @property
    def operations(self) -> Handlers:
        return {"ListServiceQuotas": self._list, "RequestServiceQuotaIncrease": self._request}

    def limit(self, name: str, service: str = SERVICE) -> float | None:
        """Return the quota that was granted or that the capacity file has; None without either."""
        kind, _, use = name.partition(" for ")
        if self.capacity and use == "training job usage":
            row = json.loads(self.capacity.read_text(encoding="utf-8")).get(kind, {})
            if "quota" in row:
                return float(row["quota"])
        return self._values.get((service, name))

    def _list(self, call: ApiCall) -> Mapping[str, Any]:
        service = call.parameters["ServiceCode"]
        names = quotas_of(service)
        if call.parameters.get("NextToken"):  # there is one page
            message = "Invalid input was provided for NextToken."
            raise AwsError("InvalidPaginationTokenException", message)
        return {"Quotas": [self._quota(service, *each) for each in names.items()]}

    def _request(self, call: ApiCall) -> Mapping[str, Any]:
        service = call.parameters["ServiceCode"]
        code, value = call.parameters["QuotaCode"], float(call.parameters["DesiredValue"])
        for name, own_code in quotas_of(service).items():
            if own_code == code:
                self._values[service, name] = value
                answer = {"QuotaName": name, "QuotaCode": code, "DesiredValue": value}
                return {"RequestedQuota": {**answer, "Status": "APPROVED"}}
        raise AwsError("NoSuchResourceException", f"There is no quota {code}")

    def _quota(self, service: str, name: str, code: str) -> dict[str, Any]:
        limit = self.limit(name, service)
        return {
            "ServiceCode": service,
            "ServiceName": NAMES[service],
            "QuotaName": name,
            "QuotaCode": code,
            "QuotaArn": self.identity.arn("servicequotas", f"{service}/{code}"),
            "Value": FIRST_VALUES.get(code, DEFAULT_VALUE) if limit is None else limit,
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }


@dataclass(frozen=True)
class Tagging:
    """TagResource, UntagResource and the list of a resource's tags.

    - `tags_of` returns the tags of the resource with an ARN, which may be changed, and raises
      AwsError where there is none.
    - `resource` is the parameter with that ARN.
    - `as_list`: tags are a list of Key and Value, not a map.
    """

    tags_of: Callable[[str], dict[str, str]]
    resource: str = "ResourceARN"
    list_name: str = "ListTagsForResource"
    as_list: bool = False

    @property
    def operations(self) -> Handlers:
        return {"TagResource": self._tag, "UntagResource": self._untag, self.list_name: self._list}

    def _tags(self, call: ApiCall) -> dict[str, str]:
        return self.tags_of(call.parameters[self.resource])

    def _tag(self, call: ApiCall) -> Mapping[str, Any]:
        tags = call.parameters["Tags"]
        self._tags(call).update(tag_map(tags) if self.as_list else tags)
        return {}

    def _untag(self, call: ApiCall) -> Mapping[str, Any]:
        for name in call.parameters["TagKeys"]:
            self._tags(call).pop(name, None)
        return {}

    def _list(self, call: ApiCall) -> Mapping[str, Any]:
        tags = self._tags(call)
        return tag_list(tags) if self.as_list else {"Tags": dict(tags)}


def tag_map(tags: list[dict[str, str]] | None) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tags or []}


def tag_list(tags: Mapping[str, str]) -> dict[str, list[dict[str, str]]]:
    """Return the member `Tags` of an answer, which an empty list leaves out."""
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {"Tags": pairs} if pairs else {}
