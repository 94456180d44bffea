"""The life of one tuning job: a thread for each training job that may run beside others."""

from __future__ import annotations

import math
import secrets
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from shoal_local.sagemaker.jobs.base.job import END_STATUSES, TRAINING, Job
from shoal_local.sagemaker.jobs.base.jobs import JobRun
from shoal_local.sagemaker.jobs.training.training import TrainingJobs
from shoal_local.sagemaker.jobs.tuning.tuning_search import Values, search_for
from shoal_local.sagemaker.shapes import Document

_CHECK_STOP_S = 0.2
_MAX_FAILURES = 5
"""Training jobs that may end without an objective value before one has succeeded."""
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


class EarlyStopping:
    """Compares each value of a running job with the jobs that have completed before.

    The n-th value that a job prints is that of its n-th epoch (developer guide, "Stop Training Jobs
    Early").
    """

    def __init__(self, config: Document) -> None:
        is_maximum = config["HyperParameterTuningJobObjective"]["Type"] == "Maximize"
        self._sign = 1 if is_maximum else -1
        self._is_on = config.get("TrainingJobEarlyStoppingType") == "Auto"
        self._values: dict[str, list[float]] = {}
        self._completed: set[str] = set()
        self._lock = threading.Lock()

    def is_to_stop(self, job: str, value: float) -> bool:
        """Take the next value of a job's objective; return whether the job is to stop for it."""
        with self._lock:
            values = self._values.setdefault(job, [])
            values.append(value)
            completed = [self._values[each] for each in self._completed & self._values.keys()]
        averages = [statistics.fmean(each[: len(values)]) for each in completed]
        if not self._is_on or not averages:
            return False
        return self._sign * value < self._sign * statistics.median(averages)

    def complete(self, job: str) -> None:
        """Compare later values with this job's, too."""
        with self._lock:
            self._completed.add(job)


class TuningRun(JobRun):
    """Starts the training jobs of one tuning job."""

    def __init__(self, job: Job, training: TrainingJobs) -> None:
        super().__init__(job, "tuning")
        self._training = training
        config = self._request["HyperParameterTuningJobConfig"]
        limits = config["ResourceLimits"]
        self._objective = config["HyperParameterTuningJobObjective"]["MetricName"]
        self._search, self._max_jobs = search_for(config)
        self._workers = min(limits["MaxParallelTrainingJobs"], self._max_jobs)
        self._early = EarlyStopping(config)
        self._ends_at = time.monotonic() + limits.get("MaxRuntimeInSeconds", math.inf)
        self._lock = threading.Lock()
        self._started = self._failures = self._successes = 0

    def _lifecycle(self) -> tuple[str, str]:
        with ThreadPoolExecutor(self._workers, thread_name_prefix=self._job.name) as workers:
            for worker in [workers.submit(self._work) for _ in range(self._workers)]:
                worker.result()
        if self._is_to_stop():
            return "Stopped", ""
        if not self._successes:
            return "Failed", _NONE_SUCCEEDED.format(self._failures)
        return "Completed", ""

    def _is_to_stop(self) -> bool:
        orders, status = self._job.orders, self._job.document()["HyperParameterTuningJobStatus"]
        return orders.stop.is_set() or status == "Stopping"

    def _is_over(self) -> bool:
        return self._is_to_stop() or time.monotonic() >= self._ends_at

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


def _has_ended(job: Document | None) -> bool:
    return job is None or job["TrainingJobStatus"] in END_STATUSES
