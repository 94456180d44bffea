"""Writes runs to an MLflow tracking server and its model registry, in MLflow's terms: parameters,
metrics with steps, tags, and a version of the registry.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib.util import find_spec
from typing import Any

from shoal.errors import AnswerError, ToolMissingError, UsageError
from shoal.page import history
from shoal.page.page import page
from shoal.page.results import evaluation_text
from shoal.pipelines.training_request import MLFLOW_TAG
from shoal.verbs.workspace import Session

_MAX_ITEMS = {"params": 100, "tags": 100, "metrics": 1000}
"""Of one request (MLflow REST API reference, LogBatch)."""
Record = Mapping[str, Any]
"""run.json."""
_OURS = "shoal."
_MODULES = {"sagemaker-mlflow": "sagemaker_mlflow", "mlflow-skinny": "mlflow"}
_SETTINGS = ("SAGEMAKER_", "MLFLOW_S3_")
"""Variables by which SageMaker's plugin and MLflow's S3 client find AWS, besides AWS_*."""


@contextmanager
def connected(session: Session, uri: str) -> "Iterator[Mlflow]":
    """Yield the tracking server at `uri`; meanwhile, this process has the target's environment.

    MLflow has no other way to be told of an endpoint and credentials: SageMaker's plugin signs, and
    the client of the artifacts writes, with what `boto3.Session()` finds in `os.environ`.
    Raises ToolMissingError without MLflow's client.
    Raises UsageError for an ARN of another account or region than the session's.
    """
    target, before = session.target, dict(os.environ)
    arn = f"arn:aws:sagemaker:{target.region}:{target.account}:mlflow-"
    if uri.startswith("arn:") and not re.fullmatch(rf"{arn}[a-z-]+/[\w-]+", uri):
        raise UsageError(
            f"{uri} is no tracking server of {session.title}, which is {target.description}; name"
            f" {arn}tracking-server/NAME, or a server's address"
        )
    inherited, endpoint = session.workspace.environ, {}
    if target.endpoint_url:  # nothing by which MLflow would reach AWS
        inherited = {key: each for key, each in inherited.items() if not key.startswith(_SETTINGS)}
        endpoint = {"SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT": target.endpoint_url}
    try:
        os.environ.clear()
        os.environ.update(target.child_environment(inherited) | endpoint)
        yield Mlflow(uri)
    finally:
        os.environ.clear()
        os.environ.update(before)


class Mlflow:
    """A tracking server; `connected` gives it the environment of a target."""

    def __init__(self, uri: str) -> None:
        """`uri` is its address, or an ARN of SageMaker's.

        Raises ToolMissingError without MLflow's client.
        """
        package = "sagemaker-mlflow" if uri.startswith("arn:") else "mlflow-skinny"
        if find_spec(_MODULES[package]) is None:
            raise ToolMissingError(
                f"MLflow's client is not installed; run `.venv/bin/pip install {package}`"
            )
        # Read by MLflow when it is imported: nothing is reported to its makers, and a server that
        # does not answer is an error after seconds instead of minutes.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        import mlflow
        from mlflow.exceptions import MlflowException

        self._uri, self._entities, self._refusal = uri, mlflow.entities, MlflowException
        try:
            mlflow.set_tracking_uri(uri)  # read by SageMaker's plugin, which signs requests
            self._client: Any = mlflow.MlflowClient()
        except MlflowException as error:
            raise self._failure(error) from error

    def export(self, session: Session, arn: str) -> str:
        """Write the execution, or bring its run up to date, and return what was written.

        Raises AnswerError if the server refuses or does not answer.
        """
        record = history.with_others(session.place, arn)
        files = {
            "run.html": page(record, session.workspace.root),
            "run.json": history.json_of(record),
        }
        if record["metrics"]:
            evaluation = evaluation_text(session.target, session.pipeline.look(arn))
            files["evaluation.json"] = evaluation.decode()
        try:
            run_id = self._write(record)
            for name, content in files.items():
                self._client.log_text(run_id, content, name)
            model = self._write_model(record, run_id)
        except self._refusal as error:
            raise self._failure(error) from error
        return f"{record['run']['pipeline']}/{run_id} ({status_of(record)}){model}"

    def _write(self, record: Record) -> str:
        """Write the run but for its files, and return its id.

        A database keeps a point that it has already once (MLflow's SqlAlchemyStore).
        """
        existing, tags = self._find(record["run"]), tags_of(record)
        run_id: str = existing.info.run_id
        for key in existing.data.tags:
            if key.startswith(_OURS) and key not in tags:  # of an earlier attempt
                self._client.delete_tag(run_id, key)
        entities = {
            "params": [self._entities.Param(*each) for each in record["parameters"].items()],
            "tags": [self._entities.RunTag(*each) for each in tags.items()],
            "metrics": [self._entities.Metric(*each) for each in metrics_of(record)],
        }
        for kind, items in entities.items():
            for start in range(0, len(items), _MAX_ITEMS[kind]):
                some = items[start : start + _MAX_ITEMS[kind]]
                self._client.log_batch(run_id, **{kind: some})
        status, ended_at = status_of(record), record["run"]["ended_at"]
        if ended_at is None:
            self._client.update_run(run_id, status=status)
        else:
            self._client.set_terminated(run_id, status, _ms(ended_at))
        return run_id

    def _find(self, run: Record) -> Any:
        """Return the run of the execution; make it, and its experiment, if there is none."""
        name = run["pipeline"]
        experiment = self._client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else self._client.create_experiment(name)
        tags, same = {MLFLOW_TAG: run["arn"]}, f"tags.`{MLFLOW_TAG}` = '{run['arn']}'"
        if runs := self._client.search_runs([number], same, max_results=1):
            return runs[0]
        began_ms = _ms(run["started_at"]) if run["started_at"] else None  # None: now
        return self._client.create_run(number, began_ms, tags, run["id"])

    def _write_model(self, record: Record, run_id: str) -> str:
        """Write the version of the registry with the run's model; return what to say of it.

        Its source is the sealed archive in S3.
        """
        if (package := record["package"]) is None:
            return ""
        name, arn = package["arn"].split("/")[-2], package["arn"]
        if not self._client.search_registered_models(f"name = '{name}'", max_results=1):
            self._client.create_registered_model(name)
        same = f"name = '{name}' and tag.`{PACKAGE_TAG}` = '{arn}'"
        found = self._client.search_model_versions(same, max_results=1)
        if not found:
            own: dict[str, Any] = {"tags": {PACKAGE_TAG: arn}, "await_creation_for": None}
            found = [self._client.create_model_version(name, package["archive"], run_id, **own)]
        version = found[0].version
        for key, value in tags_of(record).items():
            if key.startswith(_OURS):
                self._client.set_model_version_tag(name, version, key, value)
        return f", model {name} version {version}"

    def _failure(self, error: Exception) -> AnswerError:
        address = _without_user(self._uri)
        return AnswerError(f"MLflow at {address}: {_without_user(str(error).strip())}")


def _without_user(text: str) -> str:
    """Return the text without user and password of the addresses in it."""
    return re.sub(r"(?<=://)[^/\s?#]*@", "", text)


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


Point = tuple[str, float, int, int]
"""Name, value, milliseconds since the epoch and step, in the order of MLflow's own `Metric`."""


def status_of(record: Record) -> str:
    """Return the status of run.json in MLflow's terms."""
    return _STATUSES.get(record["run"]["status"], "FAILED")


def tags_of(record: Record) -> dict[str, str]:
    """Return where the run and its model come from, as tags that MLflow takes."""
    known = ((name, value) for name, value in _tags(record) if value not in (None, ""))
    return {_key(name): str(value)[:_MAX_TAG] for name, value in known}


def metrics_of(record: Record) -> Iterator[Point]:
    """Yield the points of each number; rank 0's have the workload's own name for it, and so have
    the first host's where no rank is known. What was measured once comes when the run has ended.
    """
    trainings = [step["name"] for step in record["steps"] if step["type"] == "Training"]
    for curve in record["curves"]:
        began, rank, host = _ms(record["run"]["started_at"]), curve["rank"], curve["host"]
        step = curve["step"] if len(trainings) > 1 else ""
        lane = f"rank-{rank}" if rank else host if rank is None and host != _FIRST_HOST else ""
        name = _key("/".join(filter(None, (step, curve["name"], lane))))
        for x, value, seconds in curve["points"]:
            yield name, value, began + round(seconds * 1000), round(x)
    if ended_at := record["run"]["ended_at"]:
        values = {"seconds": record["run"]["seconds"], "usd": record["money"]["usd"]}
        measured = record["metrics"]["values"] if record["metrics"] else {}
        values |= {_key(f"evaluation/{name}"): value for name, value in measured.items()}
        for name, value in values.items():
            if value is not None:
                yield name, value, _ms(ended_at), 0


def _tags(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield where the run and its model come from; what is not known is None or empty."""
    run, verdict = record["run"], record["verdict"]
    metrics, package = record["metrics"] or {}, record["package"] or {}
    yield MLFLOW_TAG, run["arn"]
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
