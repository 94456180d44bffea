"""Writes runs to an MLflow tracking server and its model registry."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from shoal.aws.target import Target
from shoal.errors import AnswerError, ToolMissingError, UsageError
from shoal.page import history
from shoal.page.mlflow_run import EXECUTION_TAG, PACKAGE_TAG, MlflowRun, mlflow_run
from shoal.page.page import page
from shoal.page.readings.report import evaluation_text
from shoal.verbs.workspace import Session

_BATCH = 100
"""Parameters or tags of one request; of metrics it may be ten times as many."""
_OURS = "shoal."
_ARN = re.compile(
    r"arn:[\w-]+:sagemaker:(?P<region>[\w-]+):(?P<account>\d{12}):mlflow-[a-z-]+/[\w-]+"
)
_SETTINGS = ("SAGEMAKER_", "MLFLOW_S3_")
"""Variables by which SageMaker's plugin and MLflow's S3 client find AWS, besides AWS_*."""


@contextmanager
def connected(session: Session, uri: str) -> Iterator[Mlflow]:
    """Yield the tracking server at `uri`; meanwhile, this process has the target's environment.

    MLflow has no other way to be told of an endpoint and credentials: SageMaker's plugin signs, and
    the client of the artifacts writes, with what `boto3.Session()` finds in `os.environ`.
    Raises ToolMissingError without MLflow's client.
    Raises UsageError for an ARN of another account or region than the session's.
    """
    _require_own(session, uri)
    before = dict(os.environ)
    _set_environment(environment_of(session.target, session.workspace.environ))
    try:
        yield Mlflow(uri)
    finally:
        _set_environment(before)


def environment_of(target: Target, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of an export.

    For AWS, all of `inherited`; for loopback, nothing by which MLflow would reach AWS.
    """
    if target.endpoint_url is None:
        return target.child_environment(inherited)
    rest = {key: value for key, value in inherited.items() if not key.startswith(_SETTINGS)}
    return target.child_environment(rest) | {
        "SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT": target.endpoint_url
    }


def _require_own(session: Session, uri: str) -> None:
    target = session.target
    own = {"region": target.region, "account": target.account}
    match = _ARN.fullmatch(uri)
    if uri.startswith("arn:") and not (match and match.groupdict() == own):
        raise UsageError(
            f"{uri} is no tracking server of {session.title}, which is {target.description}; name"
            f" arn:aws:sagemaker:{target.region}:{target.account}:mlflow-tracking-server/NAME, or a"
            " server's address"
        )


def _set_environment(variables: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


class Mlflow:
    """A tracking server; `connected` gives it the environment of a target."""

    def __init__(self, uri: str) -> None:
        """`uri` is its address, or an ARN of SageMaker's.

        Raises ToolMissingError without MLflow's client.
        """
        package = "sagemaker-mlflow" if uri.startswith("arn:") else "mlflow-skinny"
        if find_spec(package.replace("mlflow-skinny", "mlflow").replace("-", "_")) is None:
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
        run = mlflow_run(record)
        try:
            run_id = self._write(run)
            for name, content in _files(session, arn, record):
                self._write_file(run_id, name, content)
            version = self._write_version(run, run_id)
        except self._refusal as error:
            raise self._failure(error) from error
        model = f", model {version.name} version {version.version}" if version else ""
        return f"{run.experiment}/{run_id} ({run.status}){model}"

    def _write(self, run: MlflowRun) -> str:
        """Write the run but for its files, and return its id."""
        found = self._find(run)
        run_id: str = found.info.run_id
        for key in found.data.tags:
            if key.startswith(_OURS) and key not in run.tags:  # of an earlier attempt
                self._client.delete_tag(run_id, key)
        parameters = [self._entities.Param(*each) for each in run.parameters.items()]
        for some in _batches(parameters, _BATCH):
            self._client.log_batch(run_id, params=some)
        tags = [self._entities.RunTag(*each) for each in run.tags.items()]
        for some in _batches(tags, _BATCH):
            self._client.log_batch(run_id, tags=some)
        for some in _batches(list(self._new_points(run, found)), _BATCH * 10):
            self._client.log_batch(run_id, metrics=some)
        if run.ended_ms is None:
            self._client.update_run(run_id, status=run.status)
        else:
            self._client.set_terminated(run_id, run.status, run.ended_ms)
        return run_id

    def _find(self, run: MlflowRun) -> Any:
        """Return the run of the execution; make it, and its experiment, if there is none."""
        experiment = self._client.get_experiment_by_name(run.experiment)
        number = (
            experiment.experiment_id
            if experiment
            else self._client.create_experiment(run.experiment)
        )
        same = f"tags.`{EXECUTION_TAG}` = '{run.tags[EXECUTION_TAG]}'"
        found = self._client.search_runs([number], same, max_results=1)
        if found:
            return found[0]
        tags = {EXECUTION_TAG: run.tags[EXECUTION_TAG]}
        return self._client.create_run(number, run.started_ms, tags, run.name)

    def _new_points(self, run: MlflowRun, found: Any) -> Iterator[Any]:
        """Yield the points that the run does not have yet; some stores would keep them twice."""
        for name, points in run.metrics.items():
            kept = (
                self._client.get_metric_history(found.info.run_id, name)
                if name in found.data.metrics
                else ()
            )
            known = {(each.step, each.timestamp, each.value) for each in kept}
            for each in points:
                if (each.step, each.at_ms, each.value) not in known:
                    yield self._entities.Metric(name, each.value, each.at_ms, each.step)

    def _write_file(self, run_id: str, name: str, content: bytes) -> None:
        with TemporaryDirectory(prefix="shoal-mlflow-") as folder:
            file = Path(folder, name)
            file.write_bytes(content)
            self._client.log_artifact(run_id, str(file))

    def _write_version(self, run: MlflowRun, run_id: str) -> Any:
        """Return the version of the registry with the run's model; None without a model."""
        model = run.model
        if model is None:
            return None
        if not self._client.search_registered_models(f"name = '{model.name}'", max_results=1):
            self._client.create_registered_model(model.name)
        same = f"name = '{model.name}' and tag.`{PACKAGE_TAG}` = '{model.tags[PACKAGE_TAG]}'"
        found = self._client.search_model_versions(same, max_results=1)
        if not found:
            return self._client.create_model_version(
                model.name, model.source, run_id, dict(model.tags), await_creation_for=None
            )
        for key, value in model.tags.items():
            self._client.set_model_version_tag(model.name, found[0].version, key, value)
        return found[0]

    def _failure(self, error: Exception) -> AnswerError:
        address = _without_user(self._uri)
        return AnswerError(f"MLflow at {address}: {_without_user(str(error).strip())}")


def _without_user(text: str) -> str:
    """Return the text without user and password of the addresses in it."""
    return re.sub(r"(?<=://)[^/\s?#]*@", "", text)


def _files(session: Session, arn: str, record: history.Record) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the run's files."""
    yield "run.html", page(record, session.workspace.root).encode()
    yield "run.json", history.json_of(record).encode()
    if record["metrics"]:
        yield "evaluation.json", evaluation_text(session.target, session.pipeline.look(arn))


def _batches(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
