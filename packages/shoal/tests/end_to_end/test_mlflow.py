"""A training, while it runs, and `shoal report` write one run of a real `mlflow server`."""

import json
import os
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from local_kit.commands import unused_ports
from local_kit.control import eventually
from shoal.processes import stop
from shoal.verbs.local_server import port_answers
from tests.end_to_end.conftest import Checkout
from tests.repository import CHECKOUT

pytestmark = pytest.mark.nightly
PIPELINE = "shoal-mnist-dev"
MLFLOW = CHECKOUT / ".shoal" / "mlflow" / "bin" / "python"
"""Installed by `python3 dev/tools/install.py sdks`."""
VARIABLES = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
"""The second saves eight processes."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a tracking server with an empty database."""
    folder, port = tmp_path_factory.mktemp("mlflow"), next(unused_ports())
    options = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    process = subprocess.Popen(
        [MLFLOW, "-m", "mlflow", "server", *options, "--backend-store-uri", "sqlite:///mlflow.db"],
        cwd=folder,
        env=VARIABLES | {"PATH": f"{MLFLOW.parent}:{os.environ['PATH']}"},
        start_new_session=True,
    )
    uri = f"http://127.0.0.1:{port}"
    try:
        assert eventually(lambda: process.poll() is not None or port_answers(uri), 300)
        assert process.poll() is None
        yield uri
    finally:
        stop(process)


@pytest.fixture(scope="module")
def tracking(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout whose deployed `dev` tracks there."""
    checkout = Checkout.new(tmp_path_factory.mktemp("tracking"))
    file = checkout.root / "environments" / "dev.yaml"
    text = file.read_text()
    file.unlink()  # it may be a link to ours
    file.write_text(f"{text}\nmlflow: {{tracking_uri: '{server}'}}\n")
    with checkout.emulator("dev"):
        checkout.succeed("deploy", "dev", "--local")
        checkout.succeed("data", "upload", "dev", "--local")
        yield checkout


def runs_of(server: str) -> list[dict[str, Any]]:
    """Return what the server's API says of all runs of the pipeline's experiment."""
    named = {"filter": f"name = '{PIPELINE}'", "max_results": 1}
    found = ask(server, "experiments/search", named).get("experiments", [])
    ids = [each["experiment_id"] for each in found]
    return list(ask(server, "runs/search", {"experiment_ids": ids}).get("runs", []) if ids else [])


def is_live(run: dict[str, Any]) -> bool:
    return run["info"]["status"] == "RUNNING" and bool(run["data"].get("metrics"))


def ask(server: str, what: str, body: dict[str, Any]) -> dict[str, Any]:
    headers, data = {"Content-Type": "application/json"}, json.dumps(body).encode()
    with urlopen(Request(f"{server}/api/2.0/mlflow/{what}", data, headers)) as answer:
        return dict(json.load(answer))


def with_mlflow(checkout: Checkout, *command: str) -> str:
    """Return what a program prints whose interpreter has MLflow behind the product's packages."""
    packages = [str(CHECKOUT / "packages" / name / "src") for name in ("shoal", "shoal-local")]
    paths = (str(checkout.root), *packages, sysconfig.get_path("purelib"))
    variables = {"PYTHONPATH": os.pathsep.join(paths), "HOME": str(checkout.root / "home")}
    variables |= VARIABLES | {"PATH": os.environ["PATH"]}
    return subprocess.check_output([MLFLOW, *command], cwd=checkout.root, env=variables, text=True)


def test_a_training_tracks_while_it_runs_and_two_exports_add_to_its_run(
    server: str, tracking: Checkout, tmp_path: Path
) -> None:
    begun = tracking.succeed("run", "dev", "--local", "--parameter", "Epochs=2")
    started = re.search(r"^started: \S+/(\w+)$", begun, re.MULTILINE)
    assert started, begun
    assert eventually(lambda: [*map(is_live, runs_of(server))] == [True], 120)
    tracking.succeed("status", "dev", started[1], "--local", "--follow")
    export = ("--root", str(tracking.root), "report", "dev", started[1], "--local")
    for _ in range(2):
        with_mlflow(tracking, "-m", "shoal.cli", *export, "--mlflow", server)
    reader = str(Path(__file__).with_name("mlflow_reader.py"))
    read = json.loads(with_mlflow(tracking, reader, server, PIPELINE))
    file = tmp_path / "run.json"
    tracking.succeed("report", "dev", started[1], "--local", "--output", str(file))
    record = json.loads(file.read_text())
    (run,), ((version, source, run_id),) = read["runs"], read["versions"]
    assert (run["name"], run["status"]) == (started[1], "FINISHED")
    assert run["parameters"] == record["parameters"]
    losses = next(each["points"] for each in record["curves"] if each["name"] == "train:loss")
    assert run["metrics"]["train:loss"] == [[x, value] for x, value, _ in losses]
    assert [value for _, value in run["metrics"]["train_loss"]] == [value for _, value, _ in losses]
    assert run["files"] == ["evaluation.json", "run.html", "run.json"]
    assert run["tags"]["shoal.lineage.model_archive"] in source
    assert (str(version), source) == ("1", record["package"]["archive"])
    assert record["training"]["mlflow"].startswith(f"{server}/#/experiments/")
    assert record["training"]["mlflow"].endswith(f"/runs/{run_id}")
