"""The endpoint that serves an environment's release, as it is now: a target and a name in, what
serves there out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from shoal.verbs.target import Target

_NOT_FOUND = "Could not find"


@dataclass(frozen=True)
class Live:
    """An endpoint that exists."""

    name: str
    status: str
    config: str
    packages: tuple[str, ...]
    """ARNs of the model packages behind it, sorted; none for models that were made of no package.
    """
    instances: int | None
    """As many as there are now; None where there are none to count, as with serverless inference.
    """
    failure: str = ""
    """Why a deployment failed; an endpoint may be in service, with what it had before."""
    image_digests: tuple[str, ...] = ()
    """Of the images that run, sorted; none where SageMaker does not tell them."""

    def __str__(self) -> str:
        serves = ", ".join(self.packages) or "models of no package"
        count = "" if self.instances is None else f" on {self.instances} instances"
        return f"{self.name} is {self.status} and serves {serves}{count}"


def told_of(failure: str, *, as_pinned: bool) -> str:
    """What to say of an endpoint's FailureReason beside what the endpoint serves; nothing where
    there is none.

    After a rollback it is told on and on (in the emulator; what AWS does is not documented), also
    when git serves the old release again.
    """
    if not failure:
        return ""
    if as_pinned:
        return f"as pinned; SageMaker still tells why an earlier deployment failed: {failure}"
    return f"a deployment failed: {failure}"


def live(target: Target, endpoint: str) -> Live | None:
    """None when there is no such endpoint."""
    client = target.client("sagemaker")
    try:
        found = client.describe_endpoint(EndpointName=endpoint)
    except ClientError as error:
        if _NOT_FOUND in str(error):
            return None
        raise
    counts = [
        variant["CurrentInstanceCount"]
        for variant in found.get("ProductionVariants", ())
        if "CurrentInstanceCount" in variant
    ]
    return Live(
        endpoint,
        found["EndpointStatus"],
        found["EndpointConfigName"],
        tuple(sorted(_packages(client, found["EndpointConfigName"]))),
        sum(counts) if counts else None,
        found.get("FailureReason", ""),
        image_digests(found),
    )


def image_digests(endpoint: Mapping[str, Any]) -> tuple[str, ...]:
    """Digests of the images that run behind an endpoint as DescribeEndpoint describes it, each
    once, sorted.

    SageMaker resolves a tag when it deploys; `ResolvedImage` is then `registry/repository@digest`
    (API reference, DeployedImage), also of serverless variants. What is not resolved to a digest is
    left out.
    """
    images = [
        image
        for variant in endpoint.get("ProductionVariants", ())
        for image in variant.get("DeployedImages", ())
    ]
    resolved = {str(image.get("ResolvedImage", "")).partition("@")[2] for image in images}
    return tuple(sorted(resolved - {""}))


def _packages(client: Any, config: str) -> set[str]:
    variants = client.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    models = [client.describe_model(ModelName=variant["ModelName"]) for variant in variants]
    containers = [
        each
        for model in models
        for each in (model.get("PrimaryContainer", {}), *model.get("Containers", []))
    ]
    return {str(each["ModelPackageName"]) for each in containers if "ModelPackageName" in each}
