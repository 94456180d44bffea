"""What shoal-local costs: its start, the way to a script's first line, and an invocation."""

from __future__ import annotations

import http.client
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.bench import environments
from dev.bench.machine import REPOSITORY
from dev.bench.model_server import HEADERS, model_server, post
from dev.bench.processes import RunFailedError, ServerProcess, plain_environment, run
from dev.bench.rounds import Column, Comparison, Contender, Metrics, compare, cores
from dev.bench.training import CODE, request_body
from local_kit.sagemaker_account import ACCOUNT_ID, INFERENCE_IMAGE, Account, archive, until
from shoal.verbs.local_server import LocalServer
from shoal_local.testing import LocalAccount, LocalEmulator

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


def local(rounds: int, requests: int) -> Comparison:
    """Measure shoal-local; `requests` to the endpoint and to its model server per round."""
    python, numbers = environments.shipped("pytorch"), iter(range(rounds))

    def measure() -> Metrics:
        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
            first_answer_s = _first_answer_s(Path(folder))
        with measured_account() as account, tempfile.TemporaryDirectory() as folder:
            account.put("code/first.py.tar.gz", archive({"first.py": FIRST_LINE.encode()}))
            _launch(account, "warm-up")
            first_line_s = _launch(account, f"first-line-{next(numbers)}")
            return {
                "first_answer_s": first_answer_s,
                "first_line_s": first_line_s,
                "invoke": _invocation_ratio(account, python, Path(folder), requests),
            }

    columns = [
        Column("start to first answer, CPU s (goal 1.0)", "first_answer_s"),
        Column("CreateTrainingJob to the script's first line, s (goal 0.7)", "first_line_s"),
        Column("InvokeEndpoint, p50 to the model server's own (goal 1.5)", "invoke"),
    ]
    contender = Contender("shoal-local", measure)
    return compare("local", "Goals of shoal-local", [contender], columns, rounds)


def _first_answer_s(folder: Path) -> float:
    """Return the CPU seconds from the start of a server to its first answer."""
    with (folder / "server.log").open("w") as log:
        emulator = LocalEmulator.start(
            folder / "state", environment=plain_environment(), errors=log
        )
        try:
            emulator.account.client("sts").get_caller_identity()
            return ServerProcess(emulator.process.pid).tree_cpu_s()
        finally:
            emulator.stop()


@contextmanager
def measured_account() -> Iterator[Account]:
    """Start a server of the bench's own in a temporary folder, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        root = Path(folder)
        server = LocalServer(REPOSITORY, root / "state", root / "emulator.log", dict(os.environ))
        running = server.start(ACCOUNT_ID, "us-east-1")
        try:
            yield Account.at(LocalAccount(running.endpoint, root / "state", ACCOUNT_ID))
        finally:
            server.shut_down()


def _launch(account: Account, name: str) -> float:
    request = account.training(name, "first.py")
    asked_at = time.time()
    account.sagemaker.create_training_job(**request)
    if account.training_ended(name)["TrainingJobStatus"] != "Completed":
        raise RunFailedError(f"the training job {name} has not completed")
    lines = account.log("/aws/sagemaker/TrainingJobs", name)
    first = next(line for line in lines if line.startswith("first-line "))
    return float(first.rpartition(" ")[2]) - asked_at


def _invocation_ratio(account: Account, python: Path, folder: Path, requests: int) -> float:
    """Ask the shipped model, untrained, through InvokeEndpoint and at its own port."""
    body = request_body(0)
    _save_model(python, folder / "model")
    path = f"/endpoints/{_serve(account, folder / 'model')}/invocations"
    port = int(account.endpoint.rpartition(":")[2])
    signed = account.signed("POST", path, "sagemaker", body, HEADERS)
    with model_server(python, folder) as bare:
        invoked_ms = _p50_ms(port, path, body, signed, requests)
        return invoked_ms / _p50_ms(bare.port, "/invocations", body, HEADERS, requests)


def _p50_ms(port: int, path: str, body: bytes, headers: dict[str, str], requests: int) -> float:
    """Return the median of one client's requests, after a tenth of them to warm up."""
    connection = http.client.HTTPConnection("localhost", port, timeout=60)
    latencies_ms = []
    for _ in range(requests + requests // 10):
        started_s = time.perf_counter()
        post(connection, path, body, headers)
        latencies_ms.append(1000 * (time.perf_counter() - started_s))
    connection.close()
    return statistics.median(latencies_ms[requests // 10 :])


def _save_model(python: Path, folder: Path) -> None:
    command: list[str | Path] = [python, "-c", SAVE_MODEL, CODE, folder]
    run(command, on=frozenset(cores()), environ=plain_environment(), folder=REPOSITORY)
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
