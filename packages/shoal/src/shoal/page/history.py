"""Several runs of a pipeline: a row each, and those that a run is compared with."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from shoal.aws import registry
from shoal.errors import NothingToPromoteError
from shoal.page.look import Place, noting, time_text
from shoal.page.record import json_text, record

Record = Mapping[str, Any]
_MAX_VALUE = 24
"""Characters of a parameter's value in a list."""


def rows(place: Place, limit: int, *, with_results: bool) -> tuple[list[dict[str, Any]], int]:
    """Return what `shoal status` lists of the newest runs of the pipeline, one value a column, and
    how many older ones there are.

    Results take some thirty requests a run. Raises NotFoundError if there is no pipeline.
    """
    place.pipeline.definition()
    summaries = place.pipeline.executions()
    listed = []
    for each in summaries[:limit]:
        arn = str(each["PipelineExecutionArn"])
        row = {
            "run": arn.rpartition("/")[2],
            "name": each.get("PipelineExecutionDisplayName", ""),
            "status": each["PipelineExecutionStatus"],
            "started_at": time_text(each["StartTime"]),
        }
        results = _results(record(place, arn, with_logs=False)) if with_results else {}
        listed.append(row | results)
    return listed, len(summaries) - len(listed)


def _results(run: Record) -> dict[str, Any]:
    """Return what a run took, measured, registered and cost."""
    return {
        "seconds": run["run"]["seconds"],
        "metrics": {gate["metric"]: gate["value"] for gate in run["gates"]},
        "passed": [gate["passed"] for gate in run["gates"]],
        "version": run["package"] and run["package"]["version"],
        "approval": run["package"] and run["package"]["approval"],
        "usd": run["money"]["usd"],
        "parameters": run["parameters"],
        "commit": _link(run, "commit"),
        "code": _link(run, "code"),
    }


def gate_of(row: Mapping[str, Any]) -> str:
    """Return in a word whether a run passed its gates; "" before it comes to them."""
    passed = row["passed"]
    if not passed:
        return ""
    return "missed" if False in passed else "unknown" if None in passed else "passed"


def differing_parameters(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the parameters that are not the same in all rows."""
    names = dict.fromkeys(name for row in rows for name in row["parameters"])
    return [name for name in names if len({row["parameters"].get(name) for row in rows}) > 1]


def end_of(value: str) -> str:
    """Return a parameter's value in a list: of a long one the end, where URIs usually differ."""
    return value if len(value) <= _MAX_VALUE else f"...{value[3 - _MAX_VALUE :]}"


def is_over(run: Record) -> bool:
    """Return whether a run has ended, and all that it made is known to be gone."""
    return bool(run["run"]["ended_at"]) and all(each["gone"] for each in run["made"])


def _link(run: Record, what: str) -> str | None:
    return next((each["value"] for each in run["lineage"] if each["what"] == what), None)


def others_of(place: Place, arn: str, unread: list[str]) -> list[tuple[str, str]]:
    """Return label and ARN of the runs that a run is shown beside: the one before it, and the one
    that the newest approved version is of. `unread` gets why that is not known.
    """
    arns: list[str] = []
    with noting("the runs before", unread):
        arns = [str(each["PipelineExecutionArn"]) for each in place.pipeline.executions()]
    others = []
    if arn in arns[:-1]:
        others.append(("the run before", arns[arns.index(arn) + 1]))
    with noting("the approved version", unread), suppress(NothingToPromoteError):
        package = registry.newest_approved(place.target, place.model_package_group, place.arguments)
        approved = f"{arn.rpartition('/')[0]}/{package.metadata.get('execution_id')}"
        if approved in arns and approved != arn:
            others.append((f"the approved version {package.version}", approved))
    return others


def with_others(place: Place, arn: str) -> dict[str, Any]:
    """Return what the page of a run shows: the run, and the others that could be read."""
    run, unread, others = record(place, arn), list[str](), []
    for label, other in others_of(place, arn, unread):
        with noting(label, unread):
            others.append(beside(label, record(place, other)))
    return {**run, "others": others, "unread": [*run["unread"], *unread]}


def json_of(run: Record) -> str:
    """Return run.json: the run without those beside it."""
    return json_text({name: run[name] for name in run if name != "others"}, indent=2) + "\n"


def beside(label: str, run: Record) -> dict[str, Any]:
    """Return what the page of another run needs of this one."""
    return {
        "label": label,
        "id": run["run"]["id"],
        "status": run["run"]["status"],
        **{what: _link(run, what) for what in ("commit", "image", "data")},
        "definition": run["run"]["definition_sha256"],
        "parameters": run["parameters"],
        "values": run["metrics"]["values"] if run["metrics"] else {},
        "curves": run["curves"],
    }
