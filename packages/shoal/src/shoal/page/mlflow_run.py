"""A run in MLflow's terms: parameters, metrics with steps, tags, and a version of its registry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

EXECUTION_TAG = "shoal.execution_arn"
"""By which an execution's run is found again."""
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
    """One value of a metric."""

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
    metrics: Mapping[str, tuple[Point, ...]]
    tags: Mapping[str, str]
    model: tuple[str, str] | None
    """Name and source (the sealed archive in S3) of the version that MLflow's registry gets."""


def mlflow_run(record: Mapping[str, Any]) -> MlflowRun:
    """Return run.json in MLflow's terms."""
    run, package = record["run"], record["package"]
    ended_ms = _ms(run["ended_at"]) if run["ended_at"] else None
    return MlflowRun(
        experiment=run["pipeline"],
        name=run["id"],
        status=_STATUSES.get(run["status"], "FAILED"),
        started_ms=_ms(run["started_at"] or record["observed_at"]),
        ended_ms=ended_ms,
        parameters=record["parameters"],
        metrics=_curves(record) | _results(record, ended_ms),
        tags=_tags(record),
        model=package and (package["arn"].split("/")[-2], package["archive"]),
    )


def _curves(record: Mapping[str, Any]) -> dict[str, tuple[Point, ...]]:
    """Return the points of each number; rank 0's have the workload's own name for it, and so have
    the first host's where no rank is known.
    """
    began = _ms(record["run"]["started_at"]) if record["curves"] else 0
    trainings = {step["name"] for step in record["steps"] if step["type"] == "Training"}
    return {
        _metric_name(curve, several=len(trainings) > 1): tuple(
            Point(value, began + round(seconds * 1000), round(x))
            for x, value, seconds in curve["points"]
        )
        for curve in record["curves"]
    }


def _metric_name(curve: Mapping[str, Any], *, several: bool) -> str:
    parts = [curve["step"]] if several else []
    parts += [curve["name"]]
    if curve["rank"]:
        parts.append(f"rank-{curve['rank']}")
    elif curve["rank"] is None and curve["host"] not in (None, _FIRST_HOST):
        parts.append(curve["host"])
    return _key("/".join(parts))


def _results(record: Mapping[str, Any], ended_ms: int | None) -> dict[str, tuple[Point, ...]]:
    """Return what was measured once, when the run has ended; before, it would be a curve."""
    if ended_ms is None:
        return {}
    values = {"seconds": record["run"]["seconds"], "usd": record["money"]["usd"]}
    for name, value in (record["metrics"] or {"values": {}})["values"].items():
        values[_key(f"evaluation/{name}")] = value
    known = {name: value for name, value in values.items() if value is not None}
    return {name: (Point(value, ended_ms, 0),) for name, value in known.items()}


def _tags(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags; what is not known has none."""
    run, verdict = record["run"], record["verdict"]
    metrics, package = record["metrics"] or {}, record["package"] or {}
    values = {
        EXECUTION_TAG: run["arn"],
        "shoal.environment": run["environment"],
        "shoal.workload": run["workload"],
        "shoal.is_local": str(run["is_local"]).lower(),
        "shoal.status": run["status"],
        "shoal.failure": ": ".join(filter(None, (verdict["step"], verdict["reason"]))),
        "shoal.definition_sha256": run["definition_sha256"],
        "shoal.content_sha256": metrics.get("content_sha256"),
        "shoal.usd": record["money"]["usd"],
        PACKAGE_TAG: package.get("arn"),
        "shoal.model_package_version": package.get("version"),
        "shoal.approval": package.get("approval"),
        "mlflow.source.type": "JOB",
        "mlflow.source.name": run["pipeline"],
    }
    for gate in record["gates"]:
        word = {True: "passed", False: "missed", None: "not measured"}[gate["passed"]]
        values[f"shoal.gate.{gate['metric']}"] = f"{word}: {gate['value']}, {gate['limit']}"
    for link in record["lineage"]:
        what = link["what"].replace("'s", "").replace(" ", "_")
        values[f"shoal.lineage.{what}"] = link["value"]
        if what == "commit" and link["holds"]:  # else it is not known
            values["mlflow.source.git.commit"] = link["value"]
    broken = [link["what"] for link in record["lineage"] if link["holds"] is False]
    values["shoal.lineage.broken"] = ", ".join(broken)
    return {
        _key(name): str(value)[:_MAX_TAG]
        for name, value in values.items()
        if value not in (None, "")
    }


def _key(name: str) -> str:
    """Return a name with the characters that MLflow takes; source: its `validate_key`."""
    return re.sub(r"[^/\w.\- :]", "_", name, flags=re.ASCII)


def _ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
