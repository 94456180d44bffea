"""What shoal-local costs above bare processes.

`python -m dev.bench.overhead [--only pipeline|endpoint] [--epochs N] [--despite-noise]`

The deployed pipeline of dev is compared with the same training, evaluation and serving as bare
processes: same interpreter, scripts, data and hyperparameters, two ranks under mpirun, no
shoal-local, no container. Then the model is asked at its own port and through InvokeEndpoint.
"""

from __future__ import annotations

import argparse
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from dev.bench import environments, invocations
from dev.bench.deployed import Deployment, deploy_dev
from dev.bench.interleave import Contender, Metrics, Result, interleave
from dev.bench.machine import REPOSITORY
from dev.bench.model_server import model_server
from dev.bench.noise import Gauge, TooNoisyError, cores
from dev.bench.processes import end_on_sigterm, plain_environment, run
from dev.bench.report import Column, Comparison
from dev.bench.training import CODE, DATA, RANKS, mpirun, request_body
from shoal.verbs.execution import Execution
from shoal_local.runtimes.catalog import image

PIPELINE, BARE = "the pipeline in the emulator", "its processes alone"
STEPS = {
    "train_s": ("Train",),
    "evaluate_s": ("Evaluate",),
    "serve_s": ("CreateEndpoint", "SmokeTest"),
}
"""Steps of the pipeline that do the work of the bare processes; all others are overhead."""
CONTAINERS_SHARE = 0.05
"""Share of the cores' time that ends with the containers and so looks foreign.

Measured on an idle machine, in four executions: 0.05 to 0.06.
"""
DIGITS = 10
"""Digits that the smoke test asks about."""


def main(arguments: Sequence[str]) -> int:
    """Measure both, and print and write both tables.

    Returns 3 if the machine is too noisy, which drops the table in progress.
    """
    parser = argparse.ArgumentParser(prog="python -m dev.bench.overhead", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--epochs",
        type=int,
        help="of both trainings, for the first table; default: the environment's",
    )
    parser.add_argument(
        "--requests",
        type=int,
        default=400,
        help="to the endpoint, for each way, number of clients and round",
    )
    parser.add_argument("--only", choices=tuple(PARTS), help="one of the two tables")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "bench-out")
    parser.add_argument(
        "--despite-noise",
        action="store_true",
        help="measure on a busy machine too; the tables say so",
    )
    options = parser.parse_args(arguments)
    if options.epochs is not None and (options.epochs < 1 or options.only == "endpoint"):
        parser.error(
            "--epochs takes a number from 1, and is not for --only endpoint, which trains one epoch"
        )
    end_on_sigterm()
    try:
        with (
            deploy_dev() as deployment,
            tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder,
        ):
            for name, measure in PARTS.items():
                if options.only not in {None, name}:
                    continue
                comparison = measure(deployment, options, Path(folder))
                comparison.write(options.output)
                print(f"\n{comparison.table()}\n", flush=True)
    except TooNoisyError as error:
        print(f"bench: no report: {error}", file=sys.stderr)
        return 3
    return 0


def _pipeline(deployment: Deployment, options: argparse.Namespace, _folder: Path) -> Comparison:
    gauge = Gauge(frozenset({deployment.pid}), CONTAINERS_SHARE)
    result = interleave(
        contenders(deployment, options.epochs),
        options.rounds,
        gauge,
        despite_noise=options.despite_noise,
    )
    add_overhead(result)
    columns = [
        Column("seconds", "process_s", digits=1),
        Column("training", "train_s", digits=1),
        Column("evaluation", "evaluate_s", digits=1),
        Column("server and ten digits", "serve_s", digits=1),
        Column("other steps, and between steps", "other_s", digits=1),
        Column("more than alone, s", "overhead_s", digits=1),
        Column("more than alone, %", "overhead_percent", digits=0),
    ]
    title = "One execution of dev's pipeline, and its processes alone" + (
        f", {options.epochs} epochs" if options.epochs else ""
    )
    return Comparison(
        f"overhead-{options.epochs}-epochs" if options.epochs else "overhead",
        title,
        result,
        [PIPELINE, BARE],
        columns,
    )


def _endpoint(deployment: Deployment, options: argparse.Namespace, folder: Path) -> Comparison:
    with invocations.serving(deployment, deployment.execute({"Epochs": "1"}), folder) as (
        endpoint,
        server,
    ):
        contenders = invocations.contenders(deployment, endpoint, server, options.requests)
        result = interleave(
            contenders,
            options.rounds,
            Gauge(frozenset({deployment.pid})),
            despite_noise=options.despite_noise,
        )
    columns = [
        Column(
            f"{title}, {count} client{'s' if count > 1 else ''}", f"{metric}_{count}", digits=digits
        )
        for count in invocations.CLIENTS
        for title, metric, digits in (
            ("requests/s", "per_s", 0),
            ("p50, ms", "p50_ms", 2),
            ("p99, ms", "p99_ms", 2),
        )
    ]
    title = "One digit at a time to the shipped model"
    return Comparison("invocations", title, result, [each.name for each in contenders], columns)


def contenders(deployment: Deployment, epochs: int | None) -> list[Contender]:
    """Return the pipeline and its bare processes."""
    python = environments.shipped("pytorch")
    parameters = {"Epochs": str(epochs)} if epochs else {}
    hyperparameters = {"epochs": str(epochs)} if epochs else {}
    return [
        Contender(PIPELINE, lambda: _durations(deployment.execute(parameters))),
        Contender(BARE, lambda: _bare_processes(deployment, python, hyperparameters)),
    ]


def add_overhead(result: Result) -> None:
    """Add the seconds and per cent that the pipeline took longer, within each round."""
    bare = {
        sample.round: sample.metrics["process_s"]
        for sample in result.samples
        if sample.contender == BARE
    }
    for sample in result.samples:
        if sample.contender == PIPELINE:
            extra_s = sample.metrics["process_s"] - bare[sample.round]
            sample.metrics.update(
                overhead_s=extra_s, overhead_percent=100 * extra_s / bare[sample.round]
            )


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


PARTS = {"pipeline": _pipeline, "endpoint": _endpoint}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
