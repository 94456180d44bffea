"""Requests per second and latency of the shipped model: at its own port, through shoal-local's
InvokeEndpoint, and with boto3.

All three get the same body from the same number of clients. Each client has one connection that
stays open; client threads share one process.
"""

from __future__ import annotations

import functools
import http.client
import statistics
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from dev.bench import environments
from dev.bench.deployed import Deployment
from dev.bench.interleave import Contender, Metrics
from dev.bench.model_server import HEADERS, Server, model_server, post
from dev.bench.processes import RunFailedError
from dev.bench.training import request_body
from shoal.verbs.execution import Execution
from shoal.verbs.target import Target, local_access_key
from shoal.verbs.workspace import LOCAL_POLL_S

CLIENTS = (1, 4)
BARE, THROUGH, BOTO = (
    "the model server itself",
    "InvokeEndpoint, bare HTTP",
    "InvokeEndpoint, boto3",
)
WARM_UP = 20
Request = Callable[[], None]


def contenders(
    deployment: Deployment, endpoint: str, server: Server, requests: int
) -> list[Contender]:
    """Return the three ways to ask; each runs with one client and with several, `requests` times in
    all.
    """
    body = request_body(0)
    clients = {
        BARE: lambda: _http_request(server.port, "/invocations", body, HEADERS),
        THROUGH: lambda: _http_request(
            urlsplit(deployment.target.endpoint_url or "").port or 0,
            f"/endpoints/{endpoint}/invocations",
            body,
            _signed_headers(deployment.target, f"/endpoints/{endpoint}/invocations", body),
        ),
        BOTO: lambda: _boto_request(deployment, endpoint, body),
    }
    return [
        Contender(name, functools.partial(_measure, connect, requests))
        for name, connect in clients.items()
    ]


def _measure(connect: Callable[[], Request], requests: int) -> Metrics:
    metrics: Metrics = {}
    for clients in CLIENTS:
        whole_s, latencies_ms = _load([connect() for _ in range(clients)], requests // clients)
        percentiles = statistics.quantiles(latencies_ms, n=100)
        metrics |= {
            f"per_s_{clients}": len(latencies_ms) / whole_s,
            f"p50_ms_{clients}": percentiles[49],
            f"p99_ms_{clients}": percentiles[98],
        }
    return metrics


def _load(clients: list[Request], requests: int) -> tuple[float, list[float]]:
    """Return the seconds of the whole, and the milliseconds of every request, once all clients are
    warm.

    Raises RunFailedError if a client fails.
    """
    latencies_ms: list[float] = []
    errors: list[BaseException] = []
    ready = threading.Barrier(len(clients) + 1)

    def work(send: Request) -> None:
        try:
            for _ in range(WARM_UP):
                send()
            ready.wait()
            for _ in range(requests):
                started_s = time.perf_counter()
                send()
                latencies_ms.append((time.perf_counter() - started_s) * 1000)
        except BaseException as error:
            errors.append(error)
            ready.abort()
            raise

    threads = [threading.Thread(target=work, args=(send,), daemon=True) for send in clients]
    for thread in threads:
        thread.start()
    try:
        ready.wait()
    except threading.BrokenBarrierError:
        raise RunFailedError(f"a client failed: {errors[0]!r}") from None
    started_s = time.perf_counter()
    for thread in threads:
        thread.join()
    whole_s = time.perf_counter() - started_s
    if errors:
        raise RunFailedError(f"a client failed: {errors[0]!r}")
    return whole_s, latencies_ms


def http_latencies_ms(
    port: int, path: str, body: bytes, headers: dict[str, str], requests: int
) -> list[float]:
    """Return the milliseconds of each request of one client; raise RunFailedError if it fails."""
    return _load([_http_request(port, path, body, headers)], requests)[1]


def _http_request(port: int, path: str, body: bytes, headers: dict[str, str]) -> Request:
    connection = http.client.HTTPConnection("localhost", port, timeout=60)

    def send() -> None:
        post(connection, path, body, headers)

    return send


def _signed_headers(target: Target, path: str, body: bytes) -> dict[str, str]:
    """Return the headers of the one request that a client repeats, within 15 minutes."""
    request = AWSRequest("POST", f"{target.endpoint_url}{path}", dict(HEADERS), body)
    credentials = Credentials(local_access_key(target.account), target.secret)
    SigV4Auth(credentials, "sagemaker", target.region).add_auth(request)
    return dict(request.headers.items())


def _boto_request(deployment: Deployment, endpoint: str, body: bytes) -> Request:
    client = deployment.target.client("sagemaker-runtime")

    def send() -> None:
        client.invoke_endpoint(
            EndpointName=endpoint,
            ContentType="application/json",
            Accept="application/json",
            Body=body,
        )["Body"].read()

    return send


@contextmanager
def serving(
    deployment: Deployment, execution: Execution, folder: Path
) -> Iterator[tuple[str, Server]]:
    """Serve the execution's model at an endpoint of shoal-local, and in a bare server."""
    train = execution.step("Train")
    job = (train.resource("TrainingJob") if train else None) or ""
    description = deployment.target.client("sagemaker").describe_training_job(
        TrainingJobName=job.rpartition("/")[2]
    )
    archive = description["ModelArtifacts"]["S3ModelArtifacts"]
    endpoint = _make_endpoint(deployment, archive)
    bucket, _, key = archive.removeprefix("s3://").partition("/")
    archive_bytes = deployment.target.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=BytesIO(archive_bytes)) as tar:
        tar.extractall(folder / "model", filter="data")
    with model_server(environments.shipped("pytorch"), folder) as server:
        yield endpoint, server


def _make_endpoint(deployment: Deployment, archive: str) -> str:
    """Create an endpoint with the definition's own role and image.

    Raises RunFailedError if it does not come up.
    """
    sagemaker, name = deployment.target.client("sagemaker"), "shoal-bench"
    arguments = deployment.step("CreateModel")["Arguments"]
    container = {"Image": arguments["PrimaryContainer"]["Image"], "ModelDataUrl": archive}
    sagemaker.create_model(
        ModelName=name, ExecutionRoleArn=arguments["ExecutionRoleArn"], PrimaryContainer=container
    )
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": name,
        "InstanceType": "ml.m5.large",
        "InitialInstanceCount": 1,
    }
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    while (description := sagemaker.describe_endpoint(EndpointName=name))[
        "EndpointStatus"
    ] == "Creating":
        time.sleep(LOCAL_POLL_S)
    if description["EndpointStatus"] != "InService":
        raise RunFailedError(
            f"the endpoint is {description['EndpointStatus']}: {description.get('FailureReason')}"
        )
    return name
