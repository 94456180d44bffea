"""The endpoint that serves an environment's release, as it is now."""

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from shoal.aws.model_archive import model_data_of
from shoal.aws.target import Target

_NOT_FOUND = "Could not find"


@dataclass(frozen=True)
class LiveEndpoint:
    """An endpoint that exists."""

    name: str
    status: str
    archives: tuple[str, ...]
    """URLs of the archives, or prefixes of files, behind it, sorted."""
    instances: int | None
    """The current number, or None if there are none to count, as with serverless inference."""
    failure: str = ""
    """Why a deployment failed; the endpoint may still be in service, with its old configuration."""
    image_digests: tuple[str, ...] = ()
    """Digests of the running images, sorted; none if SageMaker does not tell them."""

    def __str__(self) -> str:
        serves = ", ".join(self.archives) or "models without an archive"
        count = "" if self.instances is None else f" on {self.instances} instances"
        return f"{self.name} is {self.status} and serves {serves}{count}"


def live_endpoint(target: Target, endpoint: str) -> LiveEndpoint | None:
    """Return the endpoint, or None if it does not exist."""
    client = target.client("sagemaker")
    try:
        description = client.describe_endpoint(EndpointName=endpoint)
    except ClientError as error:
        if _NOT_FOUND in str(error):
            return None
        raise
    variants = description.get("ProductionVariants", ())
    counts = [each["CurrentInstanceCount"] for each in variants if "CurrentInstanceCount" in each]
    # SageMaker resolves a tag when it deploys; `ResolvedImage` is then `registry/repository@digest`
    # (API reference, DeployedImage), also for serverless variants. An image without a digest is
    # left out.
    images = [image for each in variants for image in each.get("DeployedImages", ())]
    digests = {image.get("ResolvedImage", "").partition("@")[2] for image in images} - {""}
    return LiveEndpoint(
        endpoint,
        description["EndpointStatus"],
        tuple(sorted(_archives(client, description["EndpointConfigName"]))),
        sum(counts) if counts else None,
        description.get("FailureReason", ""),
        tuple(sorted(digests)),
    )


def _archives(client: Any, config: str) -> set[str]:
    variants = client.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    models = [client.describe_model(ModelName=variant["ModelName"]) for variant in variants]
    containers = [
        each
        for model in models
        for each in (model.get("PrimaryContainer", {}), *model.get("Containers", []))
    ]
    return {url for each in containers if (url := model_data_of(each))}
