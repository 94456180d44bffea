"""The running server of one endpoint configuration.

One process serves, however many instances a variant has: they are only counted. The concurrency of
a serverless variant is limited where invocations come in.
"""

from __future__ import annotations

import re
from contextlib import suppress

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


class Fleet:
    """The server of an endpoint with one configuration, whose only variant it serves.

    `busy` is the number of its current invocations.

    Raises AwsError if the variant's model has been deleted.
    """

    def __init__(self, core: Core, endpoint: str, config: Document) -> None:
        self._core = core
        (self.variant,) = config["ProductionVariants"]
        self._model = Models(core).find(self.variant["ModelName"])
        self.name = str(self.variant["VariantName"])
        self.config_name = str(config["EndpointConfigName"])
        self.execution_role = str(config.get("ExecutionRoleArn") or self._model["ExecutionRoleArn"])
        serverless = self.variant.get("ServerlessConfig")
        self.max_concurrency: int | None = serverless["MaxConcurrency"] if serverless else None
        # A serverless variant has no such count.
        self.count = int(self.variant.get("InitialInstanceCount", 1))
        self.server, self.busy = ModelServer(core, endpoint, self.variant, self._model), 0
        # What its image resolves to when the fleet starts stays, whatever happens to the tag.
        self._image: Document = {"SpecifiedImage": self._model["_image"]}

    def start(self) -> None:
        """Start the server; raise its error if it does not start."""
        model = self._model
        self._image = deployed_image(self._core, model["_image"], model["ExecutionRoleArn"])
        self.server.start()

    def summary(self, share: float = 1.0, status: str | None = None) -> Document:
        """Return a ProductionVariantSummary for this share of the traffic and VariantStatus."""
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
            summary["CurrentInstanceCount"] = 0 if self.server.ended() else self.count
            summary["DesiredInstanceCount"] = self.count
        if status:
            summary["VariantStatus"] = [{"Status": status, "StartTime": names.now()}]
        return summary


def deployed_image(core: Core, image_name: str, role_arn: str) -> Document:
    """Return the DeployedImage: `registry/repository:tag` resolves to `registry/repository@digest`.

    ECR is asked as the role that pulls the image. An image that is not in ECR here (only declared,
    or named by digest already) stays as specified. AWS refuses a missing image when the model is
    created; here it need not exist. Source: API reference, DeployedImage.
    """
    match, resolved = _TAGGED.fullmatch(image_name), image_name
    if match and match["region"] == core.context.region:
        request = {
            "registryId": match["registry"],
            "repositoryName": match["repository"],
            "imageIds": [{"imageTag": match["tag"] or "latest"}],
        }
        with suppress(AwsError, ClientError):  # the container's start says better what is wrong
            credentials = core.context.role_credentials(role_arn, "SageMaker-resolves-image")
            ecr = core.context.clients("ecr", credentials)
            for image in ecr.batch_get_image(**request)["images"]:
                digest = image["imageId"]["imageDigest"]
                resolved = f"{match['host']}/{match['repository']}@{digest}"
    return {"SpecifiedImage": image_name, "ResolvedImage": resolved, "ResolutionTime": names.now()}
