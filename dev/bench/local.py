"""What shoal-local costs: its start, its answers beside those of moto's own server, the way to a
script's first line, an invocation, long lists, and memory over many jobs.

The goals are for CPU seconds where other work on the machine would disturb a clock.
"""

from __future__ import annotations

import functools
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from dev.bench import environments
from dev.bench.growth import measured_server
from dev.bench.interleave import Contender, Figure, Metrics, figure, interleave
from dev.bench.invocations import http_latencies_ms
from dev.bench.machine import REPOSITORY, describe
from dev.bench.model_server import HEADERS, model_server
from dev.bench.noise import Gauge
from dev.bench.processes import RunFailedError, ServerProcess, plain_environment, run
from dev.bench.report import Column, Comparison
from dev.bench.training import CODE, request_body
from local.tests.sagemaker.account import ACCOUNT_ID, INFERENCE_IMAGE, Account, archive, until
from shoal_local.testing import LocalAccount, LocalEmulator, in_process

SHOAL, MOTO = "shoal-local", "moto's server"
BUCKET, KEYS_A_PAGE, CLIENTS = "bench", 1000, 4
LOOK_EVERY_S = 0.02
START_S = 60.0
FIRST_LINE = 'import time\nprint(f"first-line {time.time()}", flush=True)\n'
SAVE_MODEL = """
import sys
from pathlib import Path
import torch
sys.path.insert(0, sys.argv[1])
from model import new_network, save
save(new_network(torch.device("cpu")), {"training_job_name": "none"}, Path(sys.argv[2]))
"""
SERVED = ("inference.py", "model.py")


@dataclass(frozen=True)
class Length:
    """How much a run measures."""

    requests: int
    """Of each kind, to each server."""
    objects: int
    launches: int
    """Training jobs whose first line is waited for, of each round."""
    records: int
    jobs: int


QUICK_LENGTH = Length(requests=100, objects=1_000, launches=3, records=1_000, jobs=60)
FULL_LENGTH = Length(requests=300, objects=10_000, launches=10, records=10_000, jobs=1_000)


@dataclass(frozen=True)
class Goal:
    """A figure of shoal-local's that has a limit."""

    what: str
    limit: float
    values: Sequence[float]
    digits: int = 2

    @property
    def figure(self) -> Figure:
        return figure(self.values)

    def line(self) -> str:
        """Return a row of the table."""
        one = self.figure
        cells = (
            self.what,
            f"{self.limit:g}",
            " to ".join(f"{each:.{self.digits}f}" for each in (one.low, one.high)),
            f"{one.median:.{self.digits}f}",
            "met" if one.median <= self.limit else "missed",
        )
        return "| {0} | {1} | {3} ({2}) | {4} |".format(*cells)


@dataclass(frozen=True)
class Report:
    """Both tables: shoal-local beside moto's server, and the goals."""

    comparison: Comparison
    goals: Sequence[Goal]

    def table(self) -> str:
        """Return Markdown: medians and, in brackets, minimum and maximum."""
        head = (
            "### Goals of shoal-local\n\n| what | at most | measured | |\n| --- | --- | --- | --- |"
        )
        return "\n".join([self.comparison.table(), "", head, *(goal.line() for goal in self.goals)])

    def write(self, folder: Path) -> None:
        """Write the files of the comparison, goals.json and goals.md."""
        self.comparison.write(folder)
        content = {"machine": describe(), "goals": [asdict(goal) for goal in self.goals]}
        (folder / "goals.json").write_text(json.dumps(content, indent=1) + "\n")
        (folder / "goals.md").write_text(self.table() + "\n")


def measure(
    length: Length,
    rounds: int,
    gauge: Gauge,
    warm: set[str],
    despite_noise: bool,
    say: Callable[[str], None],
) -> Report:
    """Measure everything; raise RunFailedError or TooNoisyError."""
    python = environments.shipped("pytorch")
    contenders = [
        Contender(SHOAL, functools.partial(_answers, shoal_local, length)),
        Contender(MOTO, functools.partial(_answers, moto_server, length)),
    ]
    result = interleave(contenders, rounds, gauge, warm=warm, despite_noise=despite_noise, say=say)
    columns = [
        Column("start to first answer, CPU s", "first_answer_s", digits=2),
        Column("PutObject, CPU ms", "put_ms", digits=2),
        Column("GetObject, CPU ms", "get_ms", digits=2),
        Column("GetCallerIdentity, CPU ms", "identity_ms", digits=2),
        Column(f"listing {length.objects:,} objects, CPU ms", "list_ms", digits=0),
        Column("memory then, MiB", "memory_mib", digits=0),
    ]
    comparison = Comparison(
        "local", "shoal-local beside moto's own server", result, [SHOAL, MOTO], columns
    )
    goals = [Goal("start to first answer, CPU s", 1.0, result.of(SHOAL, "first_answer_s"))]
    for name, goal in (
        ("launches", functools.partial(_launches, length.launches * rounds)),
        ("invocations", functools.partial(_invocations, python, length.requests, rounds)),
        ("lists", functools.partial(_lists, length.records, rounds)),
        ("memory", functools.partial(_memory, length.jobs)),
    ):
        goals.append(goal())
        say(f"{name}: {goals[-1].line()}")
    return Report(comparison, goals)


@dataclass(frozen=True)
class Server:
    """A server that has answered its first request."""

    process: ServerProcess
    client: Callable[[str], Any]
    first_answer_s: float
    """CPU seconds from the start of its process to that answer."""


@contextmanager
def shoal_local(folder: Path) -> Iterator[Server]:
    """Start shoal-local, ask for the caller's identity, and stop it at the end."""
    with (folder / "server.log").open("w") as log:
        emulator = LocalEmulator.start(
            folder / "state", environment=plain_environment(), errors=log
        )
        try:
            process = ServerProcess(emulator.process.pid)
            emulator.account.client("sts").get_caller_identity()
            yield Server(process, emulator.account.client, process.tree_cpu_s())
        finally:
            emulator.stop()


@contextmanager
def moto_server(folder: Path) -> Iterator[Server]:
    """Start moto's server, ask for the caller's identity, and stop it at the end."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    program = Path(sys.executable).with_name("moto_server")
    with (folder / "server.log").open("wb") as log:
        started = subprocess.Popen(
            [program, "-H", "127.0.0.1", "-p", str(port)],
            env=plain_environment(AWS_EC2_METADATA_DISABLED="true"),
            stdout=log,
            stderr=log,
        )
    try:
        _wait_for_port(port, started)
        process, client = ServerProcess(started.pid), _clients_of(f"http://localhost:{port}")
        client("sts").get_caller_identity()
        yield Server(process, client, process.tree_cpu_s())
    finally:
        started.kill()
        started.wait()


def _wait_for_port(port: int, started: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if started.poll() is not None or time.monotonic() > deadline:
            raise RunFailedError("moto's server does not answer")
        time.sleep(LOOK_EVERY_S)


def _clients_of(endpoint: str) -> Callable[[str], Any]:
    @functools.cache
    def client(service: str) -> Any:
        return boto3.client(  # type: ignore[call-overload]
            service,
            region_name="us-east-1",
            endpoint_url=endpoint,
            aws_access_key_id="bench",
            aws_secret_access_key="bench",  # noqa: S106 (moto looks at no secret)
            config=Config(s3={"addressing_style": "path"}),
        )

    return client


def _answers(start: Callable[[Path], Any], length: Length) -> Metrics:
    with (
        tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder,
        start(Path(folder)) as server,
    ):
        s3, sts = server.client("s3"), server.client("sts")
        s3.create_bucket(Bucket=BUCKET)

        def put(number: int) -> None:
            s3.put_object(Bucket=BUCKET, Key=f"{number:05d}", Body=b"x" * 100)

        def get(number: int) -> None:
            s3.get_object(Bucket=BUCKET, Key=f"{number:05d}")["Body"].read()

        put(0)
        get(0)
        server.process.settle()
        metrics = {
            "first_answer_s": server.first_answer_s,
            "put_ms": _cpu_ms(server, put, length.requests),
            "get_ms": _cpu_ms(server, get, length.requests),
            "identity_ms": _cpu_ms(server, lambda _: sts.get_caller_identity(), length.requests),
        }
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(put, range(length.requests, length.objects)))
        times = max(1, length.requests // 30)
        metrics["list_ms"] = _cpu_ms(server, lambda _: _list_all(s3, length.objects), times)
        metrics["memory_mib"] = server.process.memory_mib("VmRSS")
        return metrics


def _cpu_ms(server: Server, request: Callable[[int], object], times: int) -> float:
    """Return the server's CPU milliseconds for one request."""
    before_s = server.process.cpu_s()
    for number in range(times):
        request(number)
    return (server.process.cpu_s() - before_s) / times * 1000


def _list_all(s3: Any, count: int) -> None:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    if sum(page["KeyCount"] for page in pages) != count:
        raise RunFailedError(f"a bucket of {count} objects was listed with another number")


def _launches(count: int) -> Goal:
    """Measure the seconds from CreateTrainingJob to the first line of a script that imports no
    framework.
    """
    with measured_server() as server:
        account = server.account
        account.put("code/first.py.tar.gz", archive({"first.py": FIRST_LINE.encode()}))
        seconds = [_launch(account, f"first-line-{number}") for number in range(count + 1)]
    return Goal("CreateTrainingJob to the script's first line, s", 0.7, seconds[1:])


def _launch(account: Account, name: str) -> float:
    request = account.training(name, "first.py")
    asked_at = time.time()
    account.sagemaker.create_training_job(**request)
    if account.training_ended(name)["TrainingJobStatus"] != "Completed":
        raise RunFailedError(f"the training job {name} has not completed")
    lines = account.log("/aws/sagemaker/TrainingJobs", name)
    first = next(line for line in lines if line.startswith("first-line "))
    return float(first.rpartition(" ")[2]) - asked_at


def _invocations(python: Path, requests: int, rounds: int) -> Goal:
    """Ask the shipped model, untrained, at its own port and through InvokeEndpoint, in turn."""
    body = request_body(0)
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as name, measured_server() as server:
        folder = Path(name)
        _save_model(python, folder / "model")
        path = f"/endpoints/{_serve(server.account, folder / 'model')}/invocations"
        port = int(server.account.endpoint.rpartition(":")[2])
        signed = server.account.signed("POST", path, "sagemaker", body, HEADERS)
        with model_server(python, folder) as bare:
            ratios = [
                statistics.median(http_latencies_ms(port, path, body, signed, requests))
                / statistics.median(
                    http_latencies_ms(bare.port, "/invocations", body, HEADERS, requests)
                )
                for _ in range(rounds)
            ]
    return Goal("InvokeEndpoint over bare HTTP, p50 to the model server's own", 1.5, ratios)


def _save_model(python: Path, folder: Path) -> None:
    command: list[str | Path] = [python, "-c", SAVE_MODEL, CODE, folder]
    run(command, on=frozenset({0, 1}), environ=plain_environment(), folder=REPOSITORY)
    (folder / "code").mkdir()
    for name in SERVED:
        (folder / "code" / name).write_bytes((CODE / name).read_bytes())


def _serve(account: Account, model: Path) -> str:
    name = "bench"
    files = {
        str(each.relative_to(model)): each.read_bytes()
        for each in model.rglob("*")
        if each.is_file()
    }
    url = account.put("models/model.tar.gz", archive(files))
    account.sagemaker.create_model(
        ModelName=name,
        PrimaryContainer={"Image": INFERENCE_IMAGE, "ModelDataUrl": url},
        ExecutionRoleArn=account.role,
    )
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": name,
        "InstanceType": "ml.m5.large",
        "InitialInstanceCount": 1,
    }
    account.sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    account.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    endpoint = until(
        lambda: account.sagemaker.describe_endpoint(EndpointName=name),
        lambda each: each["EndpointStatus"] != "Creating",
    )
    if endpoint["EndpointStatus"] != "InService":
        raise RunFailedError(f"the endpoint has failed: {endpoint.get('FailureReason')}")
    return name


FIRST = "the-first"
LISTS = {
    "model": "ListModels",
    "endpoint-config": "ListEndpointConfigs",
    "endpoint": "ListEndpoints",
    "training-job": "ListTrainingJobs",
    "processing-job": "ListProcessingJobs",
    "pipeline": "ListPipelines",
    "pipeline-execution": "ListPipelineExecutions",
    "model-package-group": "ListModelPackageGroups",
    "model-package": "ListModelPackages",
}
"""Kinds of the store, and the operations that list them."""


def _lists(records: int, rounds: int) -> Goal:
    """Measure the first page of these lists with many records against that with a hundred.

    One record of each kind is made over the API; the others are copies of it with other names.
    """
    with (
        tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder,
        in_process(Path(folder) / "state", ACCOUNT_ID) as emulator,
    ):
        account = Account.at(LocalAccount.of(emulator))
        _make_one_of_each(account)
        service: Any = emulator.home.sagemaker
        few: dict[str, list[float]] = {}
        many: dict[str, list[float]] = {}
        for count, milliseconds in ((100, few), (records, many)):
            for kind, operation in LISTS.items():
                _copy(service._endpoints._core.store, kind, count)
                request = {"PipelineName": FIRST} if kind == "pipeline-execution" else {}
                milliseconds[kind] = [_list_ms(service, operation, request) for _ in range(rounds)]
    ratios = {
        kind: [ours / theirs for ours, theirs in zip(many[kind], few[kind], strict=True)]
        for kind in LISTS
    }
    worst = max(ratios, key=lambda kind: statistics.median(ratios[kind]))
    what = f"first page of {LISTS[worst]}, the slowest list, {records:,} records to 100, CPU"
    return Goal(what, 1.25, ratios[worst])


def _list_ms(service: Any, operation: str, request: dict[str, Any]) -> float:
    times = 20
    before_s = time.thread_time()
    for _ in range(times):
        service.handle(operation, request, f"arn:aws:iam::{ACCOUNT_ID}:root")
    return (time.thread_time() - before_s) / times * 1000


def _copy(store: Any, kind: str, count: int) -> None:
    """Add copies of the first record of a kind until there are `count`."""
    documents = store.all(kind)
    first, text = documents[0], json.dumps(documents[0])
    name = first.get("PipelineExecutionArn", FIRST).rpartition("/")[2]
    for number in range(len(documents), count):
        copied = json.loads(text.replace(name, f"{name}-{number:05d}"))
        key = copied.get("_name") or f"{name}-{number:05d}"
        store.create(kind, key, copied, RunFailedError)


def _make_one_of_each(account: Account) -> None:
    sagemaker = account.sagemaker
    url = account.put("nothing.tar.gz", archive({"nothing": b""}))
    container = {"Image": INFERENCE_IMAGE, "ModelDataUrl": url}
    sagemaker.create_model(
        ModelName=FIRST, PrimaryContainer=container, ExecutionRoleArn=account.role
    )
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": FIRST,
        "InstanceType": "ml.m5.large",
        "InitialInstanceCount": 1,
    }
    sagemaker.create_endpoint_config(EndpointConfigName=FIRST, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=FIRST, EndpointConfigName=FIRST)
    sagemaker.create_model_package_group(ModelPackageGroupName=FIRST)
    sagemaker.create_model_package(
        ModelPackageGroupName=FIRST,
        InferenceSpecification={
            "Containers": [container],
            "SupportedContentTypes": ["application/json"],
            "SupportedResponseMIMETypes": ["application/json"],
        },
    )
    nothing = {
        "Conditions": [{"Type": "Equals", "LeftValue": 1, "RightValue": 1}],
        "IfSteps": [],
        "ElseSteps": [],
    }
    step = {"Name": "Nothing", "Type": "Condition", "Arguments": nothing}
    account.deploy_pipeline(FIRST, [step])
    account.train(FIRST)
    account.process(FIRST, "true")
    account.execute(FIRST)


def _memory(jobs: int) -> Goal:
    """Measure how much shoal-local's memory grows with each job, after the first fifth of them."""
    with measured_server() as server:
        server.account.put("code/nothing.py.tar.gz", archive({"nothing.py": b""}))
        algorithm = {
            **server.account.training("x")["AlgorithmSpecification"],
            "ContainerEntrypoint": ["/bin/true"],
        }

        def train(number: int) -> None:
            job = server.account.train(f"job-{number}", AlgorithmSpecification=algorithm)
            if job["TrainingJobStatus"] != "Completed":
                raise RunFailedError(f"a training job ended as {job}")

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(train, range(jobs // 5)))
            first_mib = server.memory_mib("VmRSS")
            list(pool.map(train, range(jobs // 5, jobs)))
        grown_kib = (server.memory_mib("VmRSS") - first_mib) * 1024 / (jobs - jobs // 5)
    return Goal(f"memory that stays of each of {jobs:,} jobs, KiB", 10, [grown_kib], digits=1)
