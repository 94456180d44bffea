"""Hyperparameter tuning jobs; what a description counts and the best training job come from the
training jobs themselves.

optuna chooses the hyperparameters, for Random, Grid and Bayesian. Sources: API reference,
ParameterRanges, HyperParameterTuningJobConfig; developer guide, "Define Hyperparameter Ranges"
(scales), "How Hyperparameter Tuning Works" (Grid: categorical values only). AWS's searches are not
known: Bayesian is a tree-structured Parzen estimator here, and no seed gives AWS's values. AWS's
quotas do not apply.
"""

import itertools
import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import check_fields, invalid, not_emulated
from shoal_local.sagemaker.jobs.base.jobs import (
    RUNNING,
    TRAINING,
    TUNING,
    Job,
    JobFailedError,
    JobRun,
    Jobs,
    JobStoppedError,
)
from shoal_local.sagemaker.jobs.training.training import TrainingJobs
from shoal_local.sagemaker.jobs.training.training_request import check_training
from shoal_local.sagemaker.shapes import Document, only_members
from shoal_local.sagemaker.store import Listing

_TRAINING_LISTING = Listing(
    "TrainingJobSummaries",
    "HyperParameterTrainingJobSummary",
    "TrainingJobName",
    "TrainingJobStatus",
    default_order="Ascending",
    extra_filters=("HyperParameterTuningJobName",),
)
_FINAL = "FinalHyperParameterTuningJobObjectiveMetric"
_COUNTERS = {"Completed": "Completed", "Stopped": "Stopped", "Failed": "NonRetryableError"}
_MAX_FAILURES = 5
_LOOK_S = 0.2
"""Training jobs that may end without an objective value before one has succeeded."""
_NONE_SUCCEEDED = (
    "No training job succeeded after {} attempts. Please take a look at the training job failures"
    " to get more details."
)
"""As AWS words it (aws/amazon-sagemaker-examples 2437)."""
_OBJECTIVE_PARAMETER = "_tuning_objective_metric"
"""The hyperparameter by which AWS tells a container its objective (sagemaker_training.params)."""


class TuningJobs(Jobs):
    """The tuning jobs of the account; `training` runs their training jobs."""

    kind = TUNING

    def __init__(self, core: Core, training: TrainingJobs) -> None:
        super().__init__(core)
        self._training = training

    def create(self, request: Document) -> Document:
        check_tuning(request)
        request = with_objective_parameter(request)
        first_name = f"{request['HyperParameterTuningJobName']}-001-00000000"
        self._training.check(training_request(request, first_name, {}))
        job = self._keep_job(request)
        return self._start(TuningRun(job, self._training), job)

    def describe(self, request: Document) -> Document:
        document = super().describe(request)
        summaries = training_summaries(self._core, document)
        best = {"BestTrainingJob": summaries[0]} if summaries else {}
        return document | _counters(self._core, document) | best

    def list(self, request: Document) -> Document:
        return super().list({"SortBy": "Name"} | request)

    def _entry(self, request: Document, document: Document) -> Document | None:
        config = document["HyperParameterTuningJobConfig"]
        limits: Document = {key: config[key] for key in ("Strategy", "ResourceLimits")}
        return document | _counters(self._core, document) | limits

    def training_jobs(self, request: Document) -> Document:
        document = self.find(request["HyperParameterTuningJobName"])
        jobs = _summaries(self._core, document)
        return _TRAINING_LISTING.page(jobs, {"SortBy": "Name"} | request)


def check_tuning(request: Document) -> None:
    """Raise AwsError for what is wrong or not emulated."""
    config, definition = request["HyperParameterTuningJobConfig"], request["TrainingJobDefinition"]
    search_for(config)
    metrics = definition["AlgorithmSpecification"].get("MetricDefinitions", [])
    objective = config.get("HyperParameterTuningJobObjective", {}).get("MetricName")
    if objective not in {each["Name"] for each in metrics}:
        raise invalid(  # worded as users report it (aws/amazon-sagemaker-examples 1207)
            "A metric is required for this hyperparameter tuning job objective. Provide a metric"
            " in the metric definitions."
        )
    training = training_request(request, "checked", {})
    check_fields("CreateTrainingJob", training)
    check_training(training)


def training_summaries(core: Core, tuning_job: Document) -> list[Document]:
    """Return the training jobs of a tuning job that have an objective value, the best first."""
    return sorted(
        (each for each in _summaries(core, tuning_job) if _FINAL in each),
        key=lambda each: float(each[_FINAL]["Value"]),
        reverse=_objective(tuning_job)["Type"] == "Maximize",
    )


def _objective(tuning_job: Document) -> Document:
    config = tuning_job["HyperParameterTuningJobConfig"]
    return dict(config["HyperParameterTuningJobObjective"])


def is_running(job: Document) -> bool:
    return job["TrainingJobStatus"] in RUNNING


def _summaries(core: Core, tuning_job: Document) -> list[Document]:
    """Return a HyperParameterTrainingJobSummary for each training job of a tuning job."""
    arn = tuning_job[TUNING.arn_key]
    jobs = core.store.select(TRAINING.store, lambda each: bool(each.get("TuningJobArn") == arn))
    return [_summary(each, tuning_job) for each in jobs]


def _summary(job: Document, tuning_job: Document) -> Document:
    value = objective_value(job, tuning_job)
    status = "Failed" if value is None else "Succeeded"
    if is_running(job):
        status = "Pending"
    summary = job | {"TunedHyperParameters": job["_tuned"], "ObjectiveStatus": status}
    if status == "Succeeded":
        summary[_FINAL] = _objective(tuning_job) | {"Value": value}
    return only_members("HyperParameterTrainingJobSummary", summary)


def _counters(core: Core, tuning_job: Document) -> Document:
    jobs: dict[str, int] = dict.fromkeys((*_COUNTERS.values(), "InProgress", "RetryableError"), 0)
    objectives = dict.fromkeys(("Succeeded", "Pending", "Failed"), 0)
    for each in _summaries(core, tuning_job):
        jobs[_COUNTERS.get(each["TrainingJobStatus"], "InProgress")] += 1
        objectives[each["ObjectiveStatus"]] += 1
    return {"TrainingJobStatusCounters": jobs, "ObjectiveStatusCounters": objectives}


def with_objective_parameter(request: Document) -> Document:
    """Return a tuning job's request with its objective among the static hyperparameters.

    AWS describes it there: SDK v2 deletes it from them when it attaches to a tuning job
    (`HyperparameterTuner._prepare_estimator_from_job_description`).
    """
    definition, metric = request["TrainingJobDefinition"], _objective(request)["MetricName"]
    static = definition.get("StaticHyperParameters", {}) | {_OBJECTIVE_PARAMETER: metric}
    return request | {"TrainingJobDefinition": definition | {"StaticHyperParameters": static}}


def training_request(tuning_job: Document, name: str, values: "Values") -> Document:
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
    metric = _objective(tuning_job)["MetricName"]
    values = {each["MetricName"]: each["Value"] for each in job.get("FinalMetricDataList", [])}
    return None if job["TrainingJobStatus"] == "Failed" else values.get(metric)


class TuningRun(JobRun):
    """Starts the training jobs of one tuning job."""

    def __init__(self, job: Job, training: TrainingJobs) -> None:
        super().__init__(job, "tuning")
        self._training = training
        config = self._request["HyperParameterTuningJobConfig"]
        limits = config["ResourceLimits"]
        self._search, self._max_jobs = search_for(config)
        self._workers = min(limits["MaxParallelTrainingJobs"], self._max_jobs)
        self._ends_at = time.monotonic() + limits.get("MaxRuntimeInSeconds", math.inf)
        self._changed = threading.Condition()
        self._failures = self._successes = self._running = 0

    def _lifecycle(self) -> None:
        with ThreadPoolExecutor(self._workers, thread_name_prefix=self._job.name) as workers:
            deque(workers.map(self._run_trial, range(1, self._max_jobs + 1)), maxlen=0)
        if self._job.stop.is_set():
            raise JobStoppedError
        if not self._successes:
            raise JobFailedError(_NONE_SUCCEEDED.format(self._failures))

    def _is_over(self) -> bool:
        return self._job.stop.is_set() or time.monotonic() >= self._ends_at

    def _run_trial(self, count: int) -> None:
        """Run one training job, unless the tuning job is over: too many failures end it, if none of
        those that still run succeeds.
        """
        with self._changed:
            while self._is_hopeless() and self._running and not self._is_over():
                self._changed.wait(_LOOK_S)
            if self._is_hopeless() or self._is_over():
                return
            self._running += 1
            number, values = self._search.next()
        name = f"{self._job.name}-{count:03}-{secrets.token_hex(4)}"
        arn = self._request[TUNING.arn_key]
        try:
            self._training.create(
                training_request(self._request, name, values), TuningJobArn=arn, _tuned=dict(values)
            )
            value = objective_value(self._ended(name), self._request)
            with self._changed:
                self._search.learn(number, value)
                self._successes += value is not None
                self._failures += value is None
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _is_hopeless(self) -> bool:
        return not self._successes and self._failures >= _MAX_FAILURES

    def _ended(self, name: str) -> Document:
        """Return the training job once it has ended; stop it with the tuning job."""
        store = self._job.core.store
        wait = partial(store.wait, TRAINING.store, name, is_running)
        if not wait(self._is_over):
            self._training.order_stop(name)
            wait(self._job.abandon.is_set)
        return store.read(TRAINING.store, name)


Values = Mapping[str, str]
Space = Mapping[str, Any]
"""optuna's distributions by the names of the hyperparameters."""


def _optuna() -> Any:
    try:
        import optuna  # slow to import, and not installed with shoal-local alone
    except ImportError:
        raise not_emulated(
            "tuning jobs without optuna (pip install 'shoal-local[tuning]')"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def read_ranges(document: Document) -> Space:
    """Return the ranges of ParameterRanges; raise AwsError for none. Auto is linear here."""
    kinds = _optuna().distributions
    numbers = (
        ("IntegerParameterRanges", int, kinds.IntDistribution),
        ("ContinuousParameterRanges", float, kinds.FloatDistribution),
    )
    space = {
        each["Name"]: _range(each, read, kind)
        for member, read, kind in numbers
        for each in document.get(member, [])
    }
    for each in document.get("CategoricalParameterRanges", []):
        space[each["Name"]] = kinds.CategoricalDistribution(tuple(dict.fromkeys(each["Values"])))
    if not space:
        raise invalid("At least one hyperparameter range is required")
    return space


def _range(document: Document, read: Callable[[str], float], kind: Callable[..., Any]) -> Any:
    """Return the distribution of a range of numbers; raise AwsError if it is wrong."""
    is_logarithmic = document.get("ScalingType") == "Logarithmic"
    try:
        low, high = read(document["MinValue"]), read(document["MaxValue"])
        # optuna takes what is infinite, and fails at the first trial
        if -math.inf < low < high < math.inf:
            return kind(low, high, log=is_logarithmic)
        reason = "MinValue must be less than MaxValue, and both finite"
    except ValueError as error:  # no number, or optuna refuses it
        reason = str(error)
    raise invalid(f"The range of {document['Name']} is wrong: {reason}")


def _size(distribution: Any) -> float:
    """Return how many values there are."""
    if hasattr(distribution, "choices"):
        return len(distribution.choices)
    is_whole = isinstance(distribution.high, int)
    return int(distribution.high - distribution.low + 1) if is_whole else math.inf


class Search:
    """Chooses values for one training job after the other; not safe for several threads."""

    def __init__(self, config: Document, space: Space) -> None:
        optuna, seed, self._space = _optuna(), config.get("RandomSeed"), space
        is_maximum = config.get("HyperParameterTuningJobObjective", {}).get("Type") == "Maximize"
        sampler: Any = optuna.samplers.RandomSampler(seed)
        if config["Strategy"] == "Bayesian":
            # constant_liar: values that are being tried count as bad ones, so that jobs differ
            sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        self._study = optuna.create_study(
            direction="maximize" if is_maximum else "minimize", sampler=sampler
        )
        self._failed = optuna.trial.TrialState.FAIL
        if config["Strategy"] == "Grid":
            for values in itertools.product(*(each.choices for each in space.values())):
                self._study.enqueue_trial(dict(zip(space, values, strict=True)))

    def next(self) -> tuple[int, Values]:
        """Return the values of another training job, and the number by which to learn of it."""
        trial = self._study.ask(self._space)
        return trial.number, {name: str(value) for name, value in trial.params.items()}

    def learn(self, number: int, objective: float | None) -> None:
        """Take the objective that values led to; None for a training job without one."""
        if objective is None or not math.isfinite(objective):
            self._study.tell(number, state=self._failed)
        else:
            self._study.tell(number, objective)


def search_for(config: Document) -> tuple[Search, int]:
    """Return the search of a tuning job and the number of its training jobs; raise AwsError."""
    strategy, key = config["Strategy"], "MaxNumberOfTrainingJobs"
    count, space = config["ResourceLimits"].get(key), read_ranges(config.get("ParameterRanges", {}))
    combinations = math.prod(map(_size, space.values()))
    if strategy == "Grid":
        if not all(hasattr(each, "choices") for each in space.values()):
            raise invalid("Grid search takes categorical hyperparameters only")
        if count not in {None, combinations}:
            raise invalid(f"{key} of this grid must be {combinations}, or left out")
        return Search(config, space), int(combinations)
    if count is None:
        raise invalid(f"{key} is required for the strategy {strategy}")
    # worded as users report it (aws/amazon-sagemaker-operator-for-k8s 123)
    if combinations < count:
        raise invalid(
            "You don't have enough combinations of hyperparameter ranges. The total number of"
            f" hyperparameter combinations for the provided ranges [{float(combinations)}] must be"
            f" equal or greater than the value of MaxNumberOfJobs, [{count}]. Provide additional"
            " ranges."
        )
    return Search(config, space), int(count)
