"""A run in MLflow's terms: parameters, metrics with steps, tags, and a version of its registry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from shoal.pipelines.training_request import EXECUTION_TAG

PACKAGE_TAG = "shoal.model_package_arn"
_STATUSES = {
    "Executing": "RUNNING",
    "Stopping": "RUNNING",
    "Succeeded": "FINISHED",
    "Stopped": "KILLED",
}
_FIRST_HOST = "algo-1"
_MAX_TAG = 5000
"""Characters of a tag's value that every version of MLflow takes."""


class Point(NamedTuple):
    """One value of a metric, in the order of MLflow's own `Metric`."""

    name: str
    value: float
    at_ms: int
    step: int


@dataclass(frozen=True)
class MlflowRun:
    """What MLflow gets of one execution; times are milliseconds since the epoch."""

    experiment: str
    name: str
    status: str
    started_ms: int
    ended_ms: int | None
    parameters: Mapping[str, str]
    metrics: tuple[Point, ...]
    tags: Mapping[str, str]
    model: tuple[str, str] | None
    """Name and source (the sealed archive in S3) of the version that MLflow's registry gets."""


def mlflow_run(record: Mapping[str, Any]) -> MlflowRun:
    """Return run.json in MLflow's terms; what was measured once comes when the run has ended."""
    run, package = record["run"], record["package"]
    ended_ms = _ms(run["ended_at"]) if run["ended_at"] else None
    results = (
        [Point(name, value, ended_ms, 0) for name, value in _results(record)] if ended_ms else []
    )
    return MlflowRun(
        experiment=run["pipeline"],
        name=run["id"],
        status=_STATUSES.get(run["status"], "FAILED"),
        started_ms=_ms(run["started_at"] or record["observed_at"]),
        ended_ms=ended_ms,
        parameters=record["parameters"],
        metrics=(*_curves(record), *results),
        tags={
            _key(name): str(value)[:_MAX_TAG]
            for name, value in _tags(record)
            if value not in (None, "")
        },
        model=package and (package["arn"].split("/")[-2], package["archive"]),
    )


def _curves(record: Mapping[str, Any]) -> Iterator[Point]:
    """Yield the points of each number; rank 0's have the workload's own name for it, and so have
    the first host's where no rank is known.
    """
    trainings = [step["name"] for step in record["steps"] if step["type"] == "Training"]
    for curve in record["curves"]:
        began, rank, host = _ms(record["run"]["started_at"]), curve["rank"], curve["host"]
        step = curve["step"] if len(trainings) > 1 else ""
        lane = f"rank-{rank}" if rank else host if rank is None and host != _FIRST_HOST else ""
        name = _key("/".join(filter(None, (step, curve["name"], lane))))
        for x, value, seconds in curve["points"]:
            yield Point(name, value, began + round(seconds * 1000), round(x))


def _results(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    values = {"seconds": record["run"]["seconds"], "usd": record["money"]["usd"]}
    measured = record["metrics"]["values"] if record["metrics"] else {}
    values |= {_key(f"evaluation/{name}"): value for name, value in measured.items()}
    yield from ((name, value) for name, value in values.items() if value is not None)


def _tags(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield where the run and its model come from; what is not known is None or empty."""
    run, verdict = record["run"], record["verdict"]
    metrics, package = record["metrics"] or {}, record["package"] or {}
    yield EXECUTION_TAG, run["arn"]
    yield from ((f"shoal.{name}", run[name]) for name in ("environment", "workload", "status"))
    yield "shoal.is_local", str(run["is_local"]).lower()
    yield "shoal.failure", ": ".join(filter(None, (verdict["step"], verdict["reason"])))
    yield "shoal.definition_sha256", run["definition_sha256"]
    yield "shoal.content_sha256", metrics.get("content_sha256")
    yield "shoal.usd", record["money"]["usd"]
    yield PACKAGE_TAG, package.get("arn")
    yield "shoal.model_package_version", package.get("version")
    yield "shoal.approval", package.get("approval")
    yield "mlflow.source.type", "JOB"
    yield "mlflow.source.name", run["pipeline"]
    for gate in record["gates"]:
        word = {True: "passed", False: "missed", None: "not measured"}[gate["passed"]]
        yield f"shoal.gate.{gate['metric']}", f"{word}: {gate['value']}, {gate['limit']}"
    for link in record["lineage"]:
        what = link["what"].replace("'s", "").replace(" ", "_")
        yield f"shoal.lineage.{what}", link["value"]
        if what == "commit" and link["holds"]:  # else it is not known
            yield "mlflow.source.git.commit", link["value"]
    broken = [link["what"] for link in record["lineage"] if link["holds"] is False]
    yield "shoal.lineage.broken", ", ".join(broken)


def _key(name: str) -> str:
    """Return a name with the characters that MLflow takes; source: its `validate_key`."""
    return re.sub(r"[^/\w.\- :]", "_", name, flags=re.ASCII)


def _ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
