"""One model server in a container, started from a model's document and ready when it answers /ping;
and the one of an endpoint configuration.

One process serves, however many instances a variant has: they are only counted. The concurrency
of a serverless variant is limited where invocations come in.
"""

import http.client
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass

from botocore.exceptions import ClientError

from shoal_local.errors import AwsError
from shoal_local.runtimes.catalog import Image
from shoal_local.sagemaker import names
from shoal_local.sagemaker.container.launch import Host, Pod, isolation_refused
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting.models import Models, fetch_model, model_uri, resolve_container
from shoal_local.sagemaker.jobs.base import containers
from shoal_local.sagemaker.jobs.base.files import HostPaths, JobPaths, LogStreams
from shoal_local.sagemaker.shapes import Document

_PORT = 8080
_PING_EVERY_S = 0.05
_FORWARDED_HEADERS = {"content-type", "accept", "x-amzn-sagemaker-custom-attributes"}
_PART_BYTES = 64 * 1024


class ServerFailedError(Exception):
    """The container does not serve; `str()` is a FailureReason."""


@dataclass(frozen=True)
class Answer:
    """The container's answer while it arrives.

    `parts` raises OSError or HTTPException if it does not arrive whole, TimeoutError if not in
    time.
    """

    status: int
    content_type: str
    parts: Iterator[bytes]

    def body(self) -> bytes:
        return b"".join(self.parts)


class ModelServer:
    """A container that serves one model of an endpoint; a subclass says for what else."""

    def __init__(self, core: Core, endpoint: str, variant: Document, model: Document) -> None:
        self._core, self._variant, self._model = core, variant, model
        self._paths = JobPaths.of(
            core.context.state_dir, "endpoint", f"{endpoint}-{secrets.token_hex(6)}"
        )
        self._endpoint, self._host = endpoint, f"i-0{secrets.token_hex(8)}"
        # the kind of resource and the request for which the role is used, the log group and what
        # its streams begin with, and the container's variables besides the model's
        self._created_by: tuple[str, Document] = ("model", model)
        self._log_place = f"/aws/sagemaker/Endpoints/{endpoint}", str(variant["VariantName"])
        self._variables: Mapping[str, str] = {}
        self._pod: Pod | None = None
        self._log: LogStreams | None = None
        self._port = free_port() if isolation_refused() else _PORT
        self._closing = threading.Event()

    def start(self) -> None:
        """Fetch the model, start the container, wait for /ping.

        Raise ServerFailedError, DataError, RuntimeBuildError or BuildStoppedError if there is no
        server in the end.
        """
        # a test may want this instance to have no capacity
        if rule := self._core.context.faults.hit("endpoint", self._endpoint, self._endpoint):
            raise ServerFailedError(rule.message)
        container = resolve_container(
            self._core, self._model.get("PrimaryContainer") or self._model["Containers"][0]
        )
        image = containers.image_for(self._core, container["Image"], "inference")
        kind, request = self._created_by
        place = containers.Workplace(
            self._core,
            image,
            self._paths,
            self._model["ExecutionRoleArn"],
            (kind, self._endpoint, {**request, "PrimaryContainer": container}),
            self._log_place,
        )
        self._log = place.log
        self._paths.renew([self._host])
        paths = self._paths.host(self._host)
        paths.model.mkdir(parents=True)
        if url := model_uri(container):
            fetch_model(place.s3, url, self._paths.upload, paths.model)
        variables = {
            **containers.threads(place.machine, 1),
            "SAGEMAKER_BIND_TO_PORT": str(self._port),
            **container.get("Environment", {}),
            **self._variables,
        }
        command = [str(image.runtime.python()), "-P", self._program(image, paths)]
        place.build_runtime(container["Image"], self._closing.is_set)
        host = Host(self._host, paths.folder, command, place.environment(paths, variables))
        self._pod = place.start([host], self._log.write)
        self._wait_for_ping(self._pod)

    def _program(self, image: Image, paths: HostPaths) -> str:
        """Return the path, in the container, of what it starts."""
        if not image.recipe:
            return containers.tool(image.program)
        try:
            return containers.write_recipes_program(image, self._core.settings.recipes, paths)
        except FileNotFoundError as error:
            raise ServerFailedError(
                f"The image's recipe has the program, and it is not here ({error}): start the"
                " emulator with --recipes and the folder images/ of the checkout."
            ) from error

    def _wait_for_ping(self, pod: Pod) -> None:
        allowed_s = self._variant.get(
            "ContainerStartupHealthCheckTimeoutInSeconds", self._core.settings.container_start_s
        )
        deadline = time.monotonic() + allowed_s
        while not self._answers_ping():
            if self._closing.is_set():
                raise ServerFailedError("The endpoint was deleted.")
            if pod.wait(0):
                pod.close()
                code = pod.exit_codes()[self._host]
                raise self._ping_failure(f"The container ended with exit code {code}.")
            if time.monotonic() > deadline:
                raise self._ping_failure(f"No answer within {allowed_s:g} s.")
            self._closing.wait(_PING_EVERY_S)

    def _ping_failure(self, evidence: str) -> ServerFailedError:
        lines = self._log.tail(3) if self._log else []
        last_lines = "; ".join(line.partition(" ")[2] for line in lines)
        return ServerFailedError(
            f"The primary container for production variant {self._variant['VariantName']} did not"
            " pass the ping health check. Please check CloudWatch logs for this endpoint."
            f" {evidence} Last lines: {last_lines}"
        )

    def _answers_ping(self) -> bool:
        try:
            with self._request("GET", "/ping", b"", {}, timeout_s=2) as answer:
                return answer.status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    def invoke(
        self, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> AbstractContextManager[Answer]:
        """Send a POST /invocations; see `_request`."""
        forwarded = {key: headers[key] for key in headers if key.lower() in _FORWARDED_HEADERS}
        return self._request("POST", "/invocations", body, forwarded, timeout_s)

    @contextmanager
    def _request(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Iterator[Answer]:
        """Yield the container's answer as soon as its head is there; it has `timeout_s` to its end.

        Raise OSError or HTTPException if nobody answers.
        """
        if self._pod is None:
            raise ConnectionError("the container has not been started")
        ends_at = time.monotonic() + timeout_s
        with closing(http.client.HTTPConnection("localhost")) as connection:
            connection.auto_open = 0  # it leads into the container or nowhere
            connection.sock = sock = self._pod.dial(self._port)
            sock.settimeout(timeout_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            content_type = response.headers.get("Content-Type", "")
            yield Answer(response.status, content_type, _parts(response, sock, ends_at))

    def ended(self) -> bool:
        """Return whether the server's process has ended."""
        return self._pod is None or self._pod.wait(0)

    def cancel(self) -> None:
        """Make a `start` that waits give up."""
        self._closing.set()

    def close(self) -> None:
        """End the process, flush its log, and delete its files but for the log."""
        self._closing.set()
        if self._pod is not None:
            self._pod.close()
        if self._log is not None:
            self._log.close()
        self._paths.remove([self._host])


def _parts(
    response: http.client.HTTPResponse, sock: socket.socket, ends_at: float
) -> Iterator[bytes]:
    """Yield the answer as it arrives: a chunk, or what was sent of it, is a part."""
    left = response.length  # None for a chunked answer, which says its end itself
    while left is None or left > 0:
        left_s = ends_at - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        sock.settimeout(left_s)
        part = response.read1(min(left or _PART_BYTES, _PART_BYTES))
        if not part and left:
            raise http.client.IncompleteRead(b"", left)
        if not part:
            return
        left = None if left is None else left - len(part)
        yield part


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


_TAGGED = re.compile(
    r"(?P<host>(?P<registry>\d{12})\.dkr\.ecr\.[^/]+)/(?P<repository>[^:@]+)(:(?P<tag>[^:@]+))?"
)


class Fleet:
    """The server of an endpoint's configuration; `busy` counts its current invocations."""

    def __init__(self, core: Core, endpoint: str, config: Document) -> None:
        self._core = core
        (self.variant,) = config["ProductionVariants"]
        self._model = Models(core).find(self.variant["ModelName"])
        self.name = str(self.variant["VariantName"])
        self.config_name = str(config["EndpointConfigName"])
        self.execution_role = str(config.get("ExecutionRoleArn") or self._model["ExecutionRoleArn"])
        self._serverless: Document = self.variant.get("ServerlessConfig", {})
        self.max_concurrency: int | None = self._serverless.get("MaxConcurrency")
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
        if self._serverless:
            for each in ("Current", "Desired"):
                summary[f"{each}ServerlessConfig"] = self._serverless
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
    if match:
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
