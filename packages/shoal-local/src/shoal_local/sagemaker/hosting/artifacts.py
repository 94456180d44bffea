"""What a model's container is made of: its definition, and its archive unpacked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal_local.errors import AwsError
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid, not_emulated, refuse_fields
from shoal_local.sagemaker.jobs.base import storage
from shoal_local.sagemaker.shapes import Document


def resolve_container(core: Core, container: Document) -> Document:
    """Return Image, ModelDataUrl and Environment of a container definition.

    A model package is looked up. Raise ValidationException for what is not emulated.
    """
    refuse_fields("ContainerDefinition", container)
    if container.get("Mode", "SingleModel") != "SingleModel":
        raise not_emulated("multi-model containers")
    if "ModelPackageName" in container:
        container = _container_of_package(core, container)
    if "Image" not in container:
        raise invalid("A container needs an Image or a ModelPackageName")
    return container


def _container_of_package(core: Core, container: Document) -> Document:
    name = container["ModelPackageName"]
    try:
        package = core.context.model_package(name)
    except AwsError as error:
        raise invalid(f"Could not find model package {name}") from error
    if package["ModelApprovalStatus"] != "Approved":
        raise invalid(
            f"The model package {name} is not approved (ModelApprovalStatus"
            f" {package['ModelApprovalStatus']})"
        )
    package_container = package["InferenceSpecification"]["Containers"][0]
    environment = {**package_container.get("Environment", {}), **container.get("Environment", {})}
    return {**package_container, "Environment": environment}


def fetch_model(s3: Any, url: str, folder: Path, target: Path) -> None:
    """Download `model.tar.gz` to `folder` and unpack it into `target`; raise DataError if that
    fails.
    """
    bucket, key = storage.split_uri(url)
    archive = folder / "model.tar.gz"
    storage.fetch_object(s3, bucket, key, archive)
    try:
        storage.unpack(archive, target)
    except storage.DataError as error:
        raise storage.DataError(
            f"Failed to extract model data archive from URL {url}: {error}"
        ) from error
