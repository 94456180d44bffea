"""What shoal-local costs above bare processes: dev's deployed pipeline, and the same training,
evaluation and serving as bare processes.

Same interpreter, scripts, data and hyperparameters, two ranks under mpirun; no container.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from dev.bench import environments
from dev.bench.deployed import Deployment, deploy_dev
from dev.bench.model_server import model_server
from dev.bench.processes import plain_environment, run
from dev.bench.rounds import Column, Comparison, Contender, Metrics, compare, cores
from dev.bench.training import CODE, DATA, RANKS, mpirun, request_body
from shoal.aws.execution import Execution
from shoal_local.runtimes.catalog import image

PIPELINE, BARE = "the pipeline in shoal-local", "its processes alone"
STEPS = {
    "train_s": ("Train",),
    "evaluate_s": ("Evaluate",),
    "serve_s": ("CreateEndpoint", "SmokeTest"),
}
"""Steps of the pipeline that do the work of the bare processes; all others are overhead."""
DIGITS = 10
"""Digits that the smoke test asks about."""


def pipeline(rounds: int, epochs: int | None) -> Comparison:
    """Compare executions with bare processes; `epochs` of both trainings, or dev's."""
    python = environments.shipped("pytorch")
    parameters = {"Epochs": str(epochs)} if epochs else {}
    hyperparameters = {"epochs": str(epochs)} if epochs else {}
    columns = [
        Column("seconds", "process_s", digits=1),
        Column("over alone", "process_s", BARE),
        Column("training", "train_s", digits=1),
        Column("evaluation", "evaluate_s", digits=1),
        Column("server and ten digits", "serve_s", digits=1),
        Column("other steps, and between steps", "other_s", digits=1),
    ]
    title = f"One execution of dev's pipeline, {epochs or 'its'} epochs, and its processes alone"
    with deploy_dev() as deployment:
        contenders = [
            Contender(PIPELINE, lambda: _durations(deployment.execute(parameters))),
            Contender(BARE, lambda: _bare_processes(deployment, python, hyperparameters)),
        ]
        return compare("overhead", title, contenders, columns, rounds)


def _durations(execution: Execution) -> Metrics:
    """Return the seconds of the whole and of the steps; `other_s` belongs to no step of STEPS."""
    end_times = [step.ended_at for step in execution.steps if step.ended_at]
    if execution.started_at is None or not end_times:
        raise ValueError(f"execution {execution.id} has no times")
    whole_s = (max(end_times) - execution.started_at).total_seconds()
    seconds = {step.name: step.seconds() or 0.0 for step in execution.steps}
    step_seconds = {metric: sum(seconds[name] for name in names) for metric, names in STEPS.items()}
    return {"process_s": whole_s, **step_seconds, "other_s": whole_s - sum(step_seconds.values())}


def _bare_processes(
    deployment: Deployment, python: Path, hyperparameters: Mapping[str, str]
) -> Metrics:
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as name:
        folder = Path(name)
        train_s = _train(deployment, python, folder, hyperparameters)
        with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
            archive.add(folder / "model", arcname=".")
        evaluate_s = _evaluate(deployment, python, folder)
        serve_s = _serve(python, folder)
    return {
        "process_s": train_s + evaluate_s + serve_s,
        "train_s": train_s,
        "evaluate_s": evaluate_s,
        "serve_s": serve_s,
    }


def _train(
    deployment: Deployment, python: Path, folder: Path, hyperparameters: Mapping[str, str]
) -> float:
    settings = {**deployment.environment.training.hyperparameters, **hyperparameters}
    options = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    folders = [
        "--train-dir",
        str(DATA),
        "--test-dir",
        str(DATA),
        "--model-dir",
        str(folder / "model"),
    ]
    variables = _image_variables(
        deployment.step("Train")["Arguments"]["AlgorithmSpecification"]["TrainingImage"], "training"
    )
    return _run(
        [*mpirun(python), CODE / "train.py", *folders, *options],
        folder,
        variables | _threads(python, RANKS),
    )


def _evaluate(deployment: Deployment, python: Path, folder: Path) -> float:
    folders = [
        "--model-dir",
        str(folder),
        "--test-dir",
        str(DATA),
        "--output-dir",
        str(folder / "evaluation"),
    ]
    variables = _image_variables(
        deployment.step("Evaluate")["Arguments"]["AppSpecification"]["ImageUri"], "processing"
    )
    return _run([python, CODE / "evaluate.py", *folders], folder, variables | _threads(python, 1))


def _image_variables(uri: str, use: str) -> dict[str, str]:
    """Return the environment variables that shoal-local gives a container of this image."""
    entry = image(uri, use)
    if entry is None:
        raise LookupError(f"shoal-local has no image {uri}")
    return dict(entry.environment)


def _threads(python: Path, ranks: int) -> dict[str, str]:
    """Return the cores, shared by the ranks as in shoal-local, and the path of the runtime's
    programs.
    """
    return {
        "OMP_NUM_THREADS": str(max(1, len(cores()) // ranks)),
        "PATH": f"{python.parent}:{os.environ.get('PATH', os.defpath)}",
    }


def _run(command: list[str | Path], folder: Path, variables: dict[str, str]) -> float:
    return run(
        command, on=frozenset(cores()), environ=plain_environment() | variables, folder=folder
    ).wall_s


def _serve(python: Path, folder: Path) -> float:
    """Return the seconds from the server's start until it has answered as often as the smoke test
    asks.
    """
    started_s = time.perf_counter()
    with model_server(python, folder) as server:
        for number in range(DIGITS):
            server.ask(request_body(number))
        return time.perf_counter() - started_s
