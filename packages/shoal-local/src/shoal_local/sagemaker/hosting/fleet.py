"""The running servers of one endpoint configuration.

An instance is a process of its own, up to `Settings.max_servers`; instances above that are counted
and not started. A serverless variant is one process; its concurrency is limited where invocations
come in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass

from botocore.exceptions import ClientError

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting.models import Models
from shoal_local.sagemaker.hosting.server import ModelServer
from shoal_local.sagemaker.shapes import Document

_TAGGED = re.compile(
    r"(?P<host>(?P<registry>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com)/(?P<repository>[^:@]+)(:(?P<tag>[^:@]+))?"
)


@dataclass(eq=False)
class Instance:
    """A server and the number of its current invocations."""

    server: ModelServer
    busy: int = 0


class Fleet:
    """The servers of an endpoint with one configuration, whose only variant they serve.

    Raises AwsError if the variant's model has been deleted.
    """

    def __init__(self, core: Core, endpoint: str, config: Document) -> None:
        self._core, self._endpoint, self.config = core, endpoint, config
        (self.variant,) = config["ProductionVariants"]
        self._model = Models(core).find(self.variant["ModelName"])
        self.name = str(self.variant["VariantName"])
        self.config_name = str(config["EndpointConfigName"])
        self.execution_role = str(config.get("ExecutionRoleArn") or self._model["ExecutionRoleArn"])
        serverless = self.variant.get("ServerlessConfig")
        self.max_concurrency: int | None = serverless["MaxConcurrency"] if serverless else None
        # A serverless variant has no such count.
        self.count = int(self.variant.get("InitialInstanceCount", 1))
        self.instances: list[Instance] = []
        # What its image resolves to when the fleet starts stays, whatever happens to the tag.
        self._image: Document = {"SpecifiedImage": self._model["_image"]}
        self._starting: list[ModelServer] = []
        self._cancelled = False

    def start(self) -> None:
        """Start all instances at once.

        If one does not start, close the others and raise its error.
        """
        model = self._model
        self._image = deployed_image(self._core, model["_image"], model["ExecutionRoleArn"])
        count = max(1, min(self.count, self._core.settings.max_servers))
        self._starting = [
            ModelServer(self._core, self._endpoint, self.variant, model) for _ in range(count)
        ]
        if self._cancelled:
            self.cancel()
        with ThreadPoolExecutor(count, "instance") as pool:
            futures = [pool.submit(server.start) for server in self._starting]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            error = next((each.exception() for each in done if each.exception()), None)
            if error:
                self.cancel()
        if error:
            close(self._starting)
            raise error
        self.instances = [Instance(server) for server in self._starting]

    def cancel(self) -> None:
        """Make a `start` that waits give up."""
        self._cancelled = True
        for server in self._starting:
            server.cancel()

    def summary(self, share: float = 1.0, status: str | None = None) -> Document:
        """Return a ProductionVariantSummary of a fleet that gets `share` of the traffic; `status`
        is its VariantStatus.
        """
        weight = float(self.variant["InitialVariantWeight"])
        summary: Document = {
            "VariantName": self.name,
            "DeployedImages": [self._image],
            "CurrentWeight": weight * share,
            "DesiredWeight": weight,
        }
        if serverless := self.variant.get("ServerlessConfig"):
            summary |= {f"{each}ServerlessConfig": serverless for each in ("Current", "Desired")}
        else:
            summary["CurrentInstanceCount"] = self.count if self.instances else 0
            summary["DesiredInstanceCount"] = self.count
        if status:
            summary["VariantStatus"] = [{"Status": status, "StartTime": names.now()}]
        return summary


def close(servers: Iterable[ModelServer]) -> None:
    """End the processes of `servers`."""
    for server in servers:
        server.close()


def deployed_image(core: Core, image_name: str, role_arn: str) -> Document:
    """Return the DeployedImage: `registry/repository:tag` resolves to `registry/repository@digest`.

    ECR is asked as the role that pulls the image. An image that is not in ECR here (only declared,
    or named by digest already) stays as specified. AWS refuses a missing image when the model is
    created; here it need not exist. Source: API reference, DeployedImage.
    """
    match = _TAGGED.fullmatch(image_name)
    digest = _digest(core, match, role_arn) if match else None
    resolved = f"{match['host']}/{match['repository']}@{digest}" if match and digest else image_name
    return {"SpecifiedImage": image_name, "ResolvedImage": resolved, "ResolutionTime": names.now()}


def _digest(core: Core, image: re.Match[str], role_arn: str) -> str | None:
    """Return None if the image or the role does not exist, or the role may not pull.

    Starting the container reports these better.
    """
    if image["region"] != core.context.region:
        return None
    request = {
        "registryId": image["registry"],
        "repositoryName": image["repository"],
        "imageIds": [{"imageTag": image["tag"] or "latest"}],
    }
    try:
        credentials = core.context.role_credentials(role_arn, "SageMaker-resolves-image")
        images = core.context.clients("ecr", credentials).batch_get_image(**request)["images"]
    except (AwsError, ClientError):
        return None
    return str(images[0]["imageId"]["imageDigest"]) if images else None
