"""What shoal-local costs above bare processes: the steps of a demo that train, evaluate and serve,
and what the other steps and the way between them take.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from dev.bench.machine import REPOSITORY
from dev.bench.processes import plain_environment, run
from dev.bench.rounds import Column, Comparison, Contender, Metrics, compare, cores

STEPS = {
    "train_s": ("Train",),
    "evaluate_s": ("Evaluate",),
    "serve_s": ("CreateEndpoint", "SmokeTest"),
}
"""Steps that do what bare processes would; all others are overhead."""


def pipeline(rounds: int, epochs: int | None) -> Comparison:
    """Measure executions of the environment dev; `epochs` of the training, or dev's."""
    columns = [
        Column("seconds", "execution_s", digits=1),
        Column("training", "train_s", digits=1),
        Column("evaluation", "evaluate_s", digits=1),
        Column("server and ten digits", "serve_s", digits=1),
        Column("other steps, and between steps", "other_s", digits=1),
    ]
    contender = Contender("the pipeline in shoal-local", lambda: _demo(epochs))
    title = f"One execution of dev's pipeline, {epochs or 'its'} epochs"
    return compare("overhead", title, [contender], columns, rounds)


def _demo(epochs: int | None) -> Metrics:
    given = ["--parameter", f"Epochs={epochs}"] if epochs else []
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as name:
        command = [sys.executable, "-m", "shoal.cli", "demo", "dev", "--output", name, *given]
        all_cores = frozenset(cores())
        run(command, on=all_cores, environ=plain_environment(), folder=REPOSITORY, timeout_s=900)
        record = json.loads((Path(name) / "run.json").read_text(encoding="utf-8"))
    seconds = {step["name"]: step["seconds"] or 0.0 for step in record["steps"]}
    metrics = {metric: sum(seconds[name] for name in names) for metric, names in STEPS.items()}
    whole_s = record["run"]["seconds"]
    return {"execution_s": whole_s, **metrics, "other_s": whole_s - sum(metrics.values())}
