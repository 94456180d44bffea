"""Models and endpoint configurations, and what a model's container is made of.

DataCaptureConfig is kept and described, but nothing is captured: AWS does not document how the
files are named, and nothing of ours reads them.
"""

from pathlib import Path
from typing import Any

from shoal_local.archives import BadArchiveError, unpack_tar
from shoal_local.errors import AwsError
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import check_fields, invalid, not_emulated
from shoal_local.sagemaker.jobs.base import storage
from shoal_local.sagemaker.jobs.base.containers import image_for
from shoal_local.sagemaker.resources import KINDS, Resources, assume, check_keys, check_network
from shoal_local.sagemaker.shapes import Document


class Models(Resources):
    """The models of the account: container image, model archive, environment and role."""

    kind = KINDS["model"]

    def create(self, request: Document) -> Document:
        containers = request.get("Containers", [])
        if len(containers) > 1:
            raise not_emulated("models of several containers (inference pipelines)")
        container = request.get("PrimaryContainer") or next(iter(containers), None)
        if container is None:
            raise invalid("Either PrimaryContainer or Containers is required")
        assume(self._core, request["ExecutionRoleArn"], request["ModelName"])
        check_network(self._core, request.get("VpcConfig"))
        container = resolve_container(self._core, container)
        model_uri(container)
        image = container["Image"]
        image_for(self._core, image, "inference")
        model = self.keep(request, _image=image, EnableNetworkIsolation=False)
        self._tell(model)
        return {"ModelArn": model["ModelArn"]}

    def delete(self, request: Document) -> Document:
        model = self.describe(request)
        super().delete(request)
        self._tell(model)
        return {}

    def _tell(self, model: Document) -> None:
        self._emit(model, {key: model[key] for key in ("ModelName", "ModelArn")})


def resolve_container(core: Core, container: Document) -> Document:
    """Return a container definition; that of a model package, where it names one."""
    check_fields("ContainerDefinition", container)
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


def model_uri(container: Document) -> str:
    """Return where a container's model lies, if it has one: an archive, or a prefix, which ends in
    a slash (API reference, S3ModelDataSource).

    Raise ValidationException for a source that is neither.
    """
    source = container.get("ModelDataSource", {}).get("S3DataSource")
    if source is None:
        return str(container.get("ModelDataUrl", ""))
    uri, kind = str(source["S3Uri"]), (source["S3DataType"], source["CompressionType"])
    if kind not in {("S3Prefix", "None"), ("S3Object", "Gzip")}:
        raise not_emulated(f"ModelDataSource with {' and '.join(kind)}")
    if uri.endswith("/") is not (kind[0] == "S3Prefix"):
        raise invalid(f"S3Uri {uri} must end with a forward slash if, and only if, it is S3Prefix")
    return uri


def fetch_model(s3: Any, url: str, folder: Path, target: Path) -> None:
    """Download a model into `target`, an archive by way of `folder`; raise DataError."""
    if url.endswith("/"):
        if not storage.fetch_prefix(s3, url, target):
            raise storage.DataError(f"Failed to download model data: nothing is below {url}")
        return
    bucket, key = storage.split_uri(url)
    archive = folder / "model.tar.gz"
    storage.fetch_object(s3, bucket, key, archive)
    try:
        unpack_tar(archive, target)
    except BadArchiveError as error:
        raise storage.DataError(
            f"Failed to extract model data archive from URL {url}: {error}"
        ) from error


class EndpointConfigs(Resources):
    """The endpoint configurations of the account."""

    kind = KINDS["endpoint-config"]

    def create(self, request: Document) -> Document:
        if len(request["ProductionVariants"]) > 1:
            raise not_emulated("endpoints with several production variants")
        (variant,) = request["ProductionVariants"]
        if "ModelName" not in variant:
            raise not_emulated("a production variant without ModelName (inference components)")
        Models(self._core).find(variant["ModelName"])
        is_serverless = bool(variant.get("ServerlessConfig"))
        if is_serverless is ("InstanceType" in variant):
            raise invalid(
                f"Variant {variant['VariantName']} needs an InstanceType, or a ServerlessConfig"
            )
        check_keys(self._core, request.get("KmsKeyId"))
        count = {} if is_serverless else {"InitialInstanceCount": 1}
        with_defaults = {**count, "InitialVariantWeight": 1.0} | variant
        config = self.keep(request, ProductionVariants=[with_defaults])
        return {"EndpointConfigArn": config["EndpointConfigArn"]}
