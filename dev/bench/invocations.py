"""Requests per second and latency of the shipped model: asked at its own port, through the
emulator's InvokeEndpoint, and by boto3.

All three get the same body from the same number of clients, each with one connection that stays
open; client threads share one process.
"""

from __future__ import annotations

import http.client
import json
import statistics
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

from dev.bench import environments
from dev.bench.deployed import Deployed
from dev.bench.interleave import Contender, Metrics
from dev.bench.model_server import HEADERS, Server, model_server, post
from dev.bench.processes import RunFailedError
from dev.bench.training import DATA
from shoal.verbs import dataset
from shoal.verbs.execution import Execution
from shoal.verbs.target import local_access_key
from shoal.verbs.workspace import LOCAL_POLL_S

CLIENTS = (1, 4)
BARE, THROUGH, BOTO = (
    "the model server itself",
    "InvokeEndpoint, bare HTTP",
    "InvokeEndpoint, boto3",
)
WARM_UP = 20
Ask = Callable[[], None]


def contenders(deployed: Deployed, endpoint: str, server: Server, requests: int) -> list[Contender]:
    """Each is run with one client and with several, `requests` times in all; each client has a way
    of its own to ask.
    """
    body = json.dumps({"instances": [dataset.read_digit(DATA, 0).rows]}).encode()
    ways = {
        BARE: lambda: _at(server.port, "/invocations", body, HEADERS),
        THROUGH: lambda: _at(
            urlsplit(deployed.target.endpoint_url or "").port or 0,
            f"/endpoints/{endpoint}/invocations",
            body,
            _signed(deployed),
        ),
        BOTO: lambda: _by_boto(deployed, endpoint, body),
    }
    return [Contender(name, lambda way=way: _measured(way, requests)) for name, way in ways.items()]  # type: ignore[misc]


def _measured(way: Callable[[], Ask], requests: int) -> Metrics:
    metrics: Metrics = {}
    for clients in CLIENTS:
        whole_s, latencies_ms = _load([way() for _ in range(clients)], requests // clients)
        cuts = statistics.quantiles(latencies_ms, n=100)
        metrics |= {
            f"per_s_{clients}": len(latencies_ms) / whole_s,
            f"p50_ms_{clients}": cuts[49],
            f"p99_ms_{clients}": cuts[98],
        }
    return metrics


def _load(clients: list[Ask], each: int) -> tuple[float, list[float]]:
    """Seconds of the whole, and milliseconds of every request, once all clients are warm.

    Raises what a client raised.
    """
    latencies_ms: list[float] = []
    raised: list[BaseException] = []
    ready = threading.Barrier(len(clients) + 1)

    def work(ask: Ask) -> None:
        try:
            for _ in range(WARM_UP):
                ask()
            ready.wait()
            for _ in range(each):
                began_s = time.perf_counter()
                ask()
                latencies_ms.append((time.perf_counter() - began_s) * 1000)
        except BaseException as error:
            raised.append(error)
            ready.abort()
            raise

    threads = [threading.Thread(target=work, args=(ask,), daemon=True) for ask in clients]
    for thread in threads:
        thread.start()
    try:
        ready.wait()
    except threading.BrokenBarrierError:
        raise RunFailedError(f"a client failed: {raised[0]!r}") from None
    began_s = time.perf_counter()
    for thread in threads:
        thread.join()
    whole_s = time.perf_counter() - began_s
    if raised:
        raise RunFailedError(f"a client failed: {raised[0]!r}")
    return whole_s, latencies_ms


def _at(port: int, path: str, body: bytes, headers: dict[str, str]) -> Ask:
    connection = http.client.HTTPConnection("localhost", port, timeout=60)

    def ask() -> None:
        post(connection, path, body, headers)

    return ask


def _signed(deployed: Deployed) -> dict[str, str]:
    """What the emulator reads of a signature: whose key it is, and for which service."""
    scope = f"{local_access_key(deployed.target.account)}/20260101/{deployed.target.region}/sagemaker/aws4_request"  # noqa: E501
    return {
        **HEADERS,
        "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=none",
    }


def _by_boto(deployed: Deployed, endpoint: str, body: bytes) -> Ask:
    client = deployed.target.client("sagemaker-runtime")

    def ask() -> None:
        client.invoke_endpoint(
            EndpointName=endpoint,
            ContentType="application/json",
            Accept="application/json",
            Body=body,
        )["Body"].read()

    return ask


@contextmanager
def serving(deployed: Deployed, execution: Execution, folder: Path) -> Iterator[tuple[str, Server]]:
    """The execution's model at an endpoint of the emulator, and in a server by hand."""
    train = execution.step("Train")
    job = (train.resource("TrainingJob") if train else None) or ""
    described = deployed.target.client("sagemaker").describe_training_job(
        TrainingJobName=job.rpartition("/")[2]
    )
    archive = described["ModelArtifacts"]["S3ModelArtifacts"]
    endpoint = _make_endpoint(deployed, archive)
    bucket, _, key = archive.removeprefix("s3://").partition("/")
    packed = deployed.target.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=BytesIO(packed)) as tar:
        tar.extractall(folder / "model", filter="data")
    with model_server(environments.shipped("pytorch"), folder) as server:
        yield endpoint, server


def _make_endpoint(deployed: Deployed, archive: str) -> str:
    """Made with the definition's own role and image.

    Raises RunFailedError if it does not come up.
    """
    sagemaker, name = deployed.target.client("sagemaker"), "shoal-bench"
    wanted = deployed.step("CreateModel")["Arguments"]
    container = {"Image": wanted["PrimaryContainer"]["Image"], "ModelDataUrl": archive}
    sagemaker.create_model(
        ModelName=name, ExecutionRoleArn=wanted["ExecutionRoleArn"], PrimaryContainer=container
    )
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": name,
        "InstanceType": "ml.m5.large",
        "InitialInstanceCount": 1,
    }
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    while (look := sagemaker.describe_endpoint(EndpointName=name))["EndpointStatus"] == "Creating":
        time.sleep(LOCAL_POLL_S)
    if look["EndpointStatus"] != "InService":
        raise RunFailedError(
            f"the endpoint is {look['EndpointStatus']}: {look.get('FailureReason')}"
        )
    return name
