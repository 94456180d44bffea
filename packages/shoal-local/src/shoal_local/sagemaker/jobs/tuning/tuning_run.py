"""The life of one tuning job: a thread for each training job that may run beside others."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from shoal_local.sagemaker import names
from shoal_local.sagemaker.jobs.base.ending import ended_by
from shoal_local.sagemaker.jobs.base.job import TRAINING, Job, failure_reason
from shoal_local.sagemaker.jobs.base.paths import JobPaths
from shoal_local.sagemaker.jobs.training.training import TrainingJobs
from shoal_local.sagemaker.jobs.tuning.tuning_search import Values, search_for
from shoal_local.sagemaker.jobs.tuning.tuning_stopping import CompletionCriteria, EarlyStopping
from shoal_local.sagemaker.shapes import Document

_CHECK_STOP_S = 0.2
_MAX_FAILURES = 5
"""Training jobs that may end without an objective value before one has succeeded."""
_END_STATUSES = {"Completed", "Failed", "Stopped"}
_NONE_SUCCEEDED = (
    "No training job succeeded after {} attempts. Please take a look at the training job failures"
    " to get more details."
)
"""As AWS words it (aws/amazon-sagemaker-examples 2437)."""
_OBJECTIVE_PARAMETER = "_tuning_objective_metric"
"""The hyperparameter by which AWS tells a container its objective (sagemaker_training.params)."""


def with_objective_parameter(request: Document) -> Document:
    """Return a tuning job's request with its objective among the static hyperparameters.

    AWS describes it there: SDK v2 deletes it from them when it attaches to a tuning job
    (`HyperparameterTuner._prepare_estimator_from_job_description`).
    """
    config, definition = request["HyperParameterTuningJobConfig"], request["TrainingJobDefinition"]
    metric = config.get("HyperParameterTuningJobObjective", {}).get("MetricName", "")
    static = definition.get("StaticHyperParameters", {}) | {_OBJECTIVE_PARAMETER: metric}
    return request | {"TrainingJobDefinition": definition | {"StaticHyperParameters": static}}


def training_request(tuning_job: Document, name: str, values: Values) -> Document:
    """Return the CreateTrainingJob request of one training job."""
    definition = dict(tuning_job["TrainingJobDefinition"])
    definition.pop("DefinitionName", None)
    # With one instance type this says what ResourceConfig says; SageMaker's SDK v2 sends it always.
    if resources := definition.pop("HyperParameterTuningResourceConfig", None):
        definition["ResourceConfig"] = resources
    static = definition.pop("StaticHyperParameters", {})
    return {
        **definition,
        "TrainingJobName": name,
        "HyperParameters": {**static, **values},
        "Tags": tuning_job.get("_tags", []),
    }


def objective_value(job: Document, tuning_job: Document) -> float | None:
    """Return the last value of the objective that a training job has printed; None without one."""
    config = tuning_job["HyperParameterTuningJobConfig"]
    metric = config["HyperParameterTuningJobObjective"]["MetricName"]
    values = {each["MetricName"]: each["Value"] for each in job.get("FinalMetricDataList", [])}
    return None if job["TrainingJobStatus"] == "Failed" else values.get(metric)


class TuningRun:
    """Runs in a thread of its own; `run()` returns when the job has ended, whichever way."""

    def __init__(self, job: Job, training: TrainingJobs) -> None:
        self._job, self._training, self._request = job, training, job.document()
        config = self._request["HyperParameterTuningJobConfig"]
        self._objective = config["HyperParameterTuningJobObjective"]["MetricName"]
        self._search, self._max_jobs = search_for(config)
        self._workers = min(config["ResourceLimits"]["MaxParallelTrainingJobs"], self._max_jobs)
        self._early, self._criteria = EarlyStopping(config), CompletionCriteria(config)
        self._lock = threading.Lock()
        self._started = self._failures = self._successes = 0

    def run(self) -> None:
        try:
            with ThreadPoolExecutor(self._workers, thread_name_prefix=self._job.name) as workers:
                for worker in [workers.submit(self._work) for _ in range(self._workers)]:
                    worker.result()
            self._finish(*self._ending())
        except Exception as error:  # noqa: BLE001 (a job must never stay InProgress)
            folder = JobPaths.of(self._job.core.context.state_dir, "tuning", self._job.name).folder
            folder.mkdir(parents=True, exist_ok=True)
            self._finish(*ended_by(error, folder))

    def _ending(self) -> tuple[str, str]:
        if self._is_to_stop():
            return "Stopped", ""
        if not self._successes:
            return "Failed", _NONE_SUCCEEDED.format(self._failures)
        return "Completed", ""

    def _is_to_stop(self) -> bool:
        orders, status = self._job.orders, self._job.document()["HyperParameterTuningJobStatus"]
        return orders.stop.is_set() or status == "Stopping"

    def _is_over(self) -> bool:
        return self._is_to_stop() or self._criteria.are_met()

    def _work(self) -> None:
        """Run one training job after the other until none is left."""
        while (trial := self._next()) is not None:
            self._run_trial(*trial)

    def _next(self) -> tuple[str, Values] | None:
        with self._lock:
            gave_up = not self._successes and self._failures >= _MAX_FAILURES
            if gave_up or self._started >= self._max_jobs or self._is_over():
                return None
            values = self._search.next()
            if values is None:
                return None
            self._started += 1
            return f"{self._job.name}-{self._started:03}-{secrets.token_hex(4)}", values

    def _run_trial(self, name: str, values: Values) -> None:
        members = {
            "TuningJobArn": self._request["HyperParameterTuningJobArn"],
            "_tuned": dict(values),
        }
        request = training_request(self._request, name, values)
        self._training.create(request, members, partial(self._see, name))
        job = self._wait(name)
        value = objective_value(job, self._request) if job else None
        if job and job["TrainingJobStatus"] == "Completed":
            self._early.complete(name)
        with self._lock:
            self._search.learn(values, value)
            if value is not None:
                self._criteria.learn(value)
            self._successes += value is not None
            self._failures += value is None

    def _see(self, name: str, metric: str, value: float) -> None:
        """Stop a training job early if its objective has become worse than that of others."""
        if metric == self._objective and self._early.is_to_stop(name, value):
            self._training.order_stop(name)

    def _wait(self, name: str) -> Document | None:
        """Return the training job once it has ended; stop it with the tuning job."""
        is_stopped = False
        while not self._job.orders.abandon.is_set():
            try:
                return self._job.core.store.wait(
                    TRAINING.store, name, _has_ended, timeout_s=_CHECK_STOP_S
                )
            except TimeoutError:
                if self._is_over() and not is_stopped:
                    is_stopped = True
                    self._training.order_stop(name)
        return None

    def _finish(self, status: str, reason: str) -> None:
        changes: Mapping[str, str] = {"FailureReason": failure_reason(reason)} if reason else {}

        def edit(document: Document) -> None:
            document.update(
                changes,
                HyperParameterTuningJobStatus=status,
                HyperParameterTuningEndTime=names.now(),
            )

        self._job.change(edit)


def _has_ended(job: Document | None) -> bool:
    return job is None or job["TrainingJobStatus"] in _END_STATUSES
