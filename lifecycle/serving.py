"""The endpoint that serves an environment's release, as it is now: a target and a name in, what serves there out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from lifecycle.target import Target

_NOT_FOUND = "Could not find"


@dataclass(frozen=True)
class Live:
    """An endpoint that exists."""

    name: str
    status: str
    config: str
    packages: tuple[str, ...]
    """ARNs of the model packages behind it, sorted; none for models that were made of no package."""
    instances: int | None
    """As many as there are now; None where there are none to count, as with serverless inference."""
    failure: str = ""
    """Why the last deployment failed; an endpoint may be in service, with what it had before."""

    def __str__(self) -> str:
        serves = ", ".join(self.packages) or "models of no package"
        count = "" if self.instances is None else f" on {self.instances} instances"
        return f"{self.name} is {self.status} and serves {serves}{count}" + (f"; last failure: {self.failure}" if self.failure else "")


def live(target: Target, endpoint: str) -> Live | None:
    """None when there is no such endpoint."""
    client = target.client("sagemaker")
    try:
        found = client.describe_endpoint(EndpointName=endpoint)
    except ClientError as error:
        if _NOT_FOUND in str(error):
            return None
        raise
    counts = [variant["CurrentInstanceCount"] for variant in found.get("ProductionVariants", ()) if "CurrentInstanceCount" in variant]
    return Live(
        endpoint,
        found["EndpointStatus"],
        found["EndpointConfigName"],
        tuple(sorted(_packages(client, found["EndpointConfigName"]))),
        sum(counts) if counts else None,
        found.get("FailureReason", ""),
    )


def _packages(client: Any, config: str) -> set[str]:
    variants = client.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    models = [client.describe_model(ModelName=variant["ModelName"]) for variant in variants]
    containers = [each for model in models for each in (model.get("PrimaryContainer", {}), *model.get("Containers", []))]
    return {str(each["ModelPackageName"]) for each in containers if "ModelPackageName" in each}
