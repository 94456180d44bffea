"""The running servers of one endpoint configuration.

An instance is a process of its own, up to `Settings.max_servers` of a variant; instances above that
are counted and not started. A serverless variant is one process; its concurrency is limited where
invocations come in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from botocore.exceptions import ClientError

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting import models
from shoal_local.sagemaker.hosting.server import ModelServer, ServerFailedError
from shoal_local.sagemaker.shapes import Document

_TAGGED = re.compile(
    r"(?P<host>(?P<registry>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com)/(?P<repository>[^:@]+)(:(?P<tag>[^:@]+))?"
)


@dataclass(eq=False)
class Instance:
    """A server and the number of its current invocations."""

    server: ModelServer
    busy: int = 0


@dataclass(eq=False)
class Variant:
    """A production variant with its instances.

    `document` is the configuration's ProductionVariant with the desired weight and count.
    """

    document: Document
    model: Document
    instances: list[Instance] = field(default_factory=list)
    deployed_image: Document = field(default_factory=dict)
    """What its image resolved to when the fleet was started; that stays, whatever happens to the
    tag.
    """

    @property
    def name(self) -> str:
        return str(self.document["VariantName"])

    @property
    def image(self) -> str:
        return str(self.model["_image"])

    @property
    def weight(self) -> float:
        return float(self.document["InitialVariantWeight"])

    @property
    def count(self) -> int:
        """Instances as the API counts them; a serverless variant has none."""
        return int(self.document.get("InitialInstanceCount", 1))

    @property
    def max_concurrency(self) -> int | None:
        """MaxConcurrency of a serverless variant."""
        serverless = self.document.get("ServerlessConfig")
        return int(serverless["MaxConcurrency"]) if serverless else None

    @property
    def busy(self) -> int:
        return sum(each.busy for each in self.instances)


class Fleet:
    """The servers of an endpoint with one configuration.

    Raises ServerFailedError if a variant's model has been deleted.
    """

    def __init__(self, core: Core, endpoint: str, config: Document) -> None:
        self._core, self._endpoint = core, endpoint
        self.config_name: str = config["EndpointConfigName"]
        self.config = config
        self.variants = [self._variant(document) for document in config["ProductionVariants"]]
        self._starting: list[ModelServer] = []
        self._cancelled = False

    def _variant(self, document: Document) -> Variant:
        model = self._core.store.get(models.KIND, document["ModelName"])
        if model is None:
            raise ServerFailedError(
                f'Could not find model "{self._core.arn("model", document["ModelName"])}".'
            )
        return Variant(document, model)

    def execution_role(self) -> str:
        """Return the role of the configuration, or of its first model."""
        return str(
            self.config.get("ExecutionRoleArn") or self.variants[0].model["ExecutionRoleArn"]
        )

    def start(self) -> None:
        """Start every variant's instances at once.

        If one does not start, close the others and raise its error.
        """
        for variant in self.variants:
            variant.deployed_image = deployed_image(
                self._core, variant.image, variant.model["ExecutionRoleArn"]
            )
        servers_by_variant = {
            variant: [self._server(variant) for _ in range(self._processes(variant))]
            for variant in self.variants
        }
        self._start([server for servers in servers_by_variant.values() for server in servers])
        for variant, servers in servers_by_variant.items():
            variant.instances = [Instance(server) for server in servers]

    def start_more(self, variant: Variant, count: int) -> list[Instance]:
        """Start the instances that the variant lacks for `count`, and return them."""
        servers = [
            self._server(variant)
            for _ in range(min(count, self._core.settings.max_servers) - len(variant.instances))
        ]
        self._start(servers)
        return [Instance(server) for server in servers]

    def surplus(self, variant: Variant, count: int) -> int:
        """Return how many instances are too many for `count`."""
        return max(0, len(variant.instances) - min(count, self._core.settings.max_servers))

    def _processes(self, variant: Variant) -> int:
        return (
            1
            if variant.max_concurrency
            else max(1, min(variant.count, self._core.settings.max_servers))
        )

    def _server(self, variant: Variant) -> ModelServer:
        return ModelServer(self._core, self._endpoint, variant.document, variant.model)

    def _start(self, servers: Sequence[ModelServer]) -> None:
        if not servers:
            return
        self._starting = list(servers)
        if self._cancelled:
            self.cancel()
        with ThreadPoolExecutor(len(servers), "instance") as pool:
            futures = [pool.submit(server.start) for server in servers]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            error = next((each.exception() for each in done if each.exception()), None)
            if error:
                self.cancel()
        self._starting = []
        if error:
            close(servers)
            raise error

    def cancel(self) -> None:
        """Make a `start` that waits give up."""
        self._cancelled = True
        for server in self._starting:
            server.cancel()

    def instances(self) -> list[Instance]:
        return [instance for variant in self.variants for instance in variant.instances]


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
