"""Hyperparameter tuning jobs: Create, Describe, List, Stop, and the list of their training jobs.

What a description counts and the best training job come from the training jobs themselves.
"""

from __future__ import annotations

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import in_use, invalid, not_emulated, not_found
from shoal_local.sagemaker.jobs.base.job import TRAINING, TUNING, Job
from shoal_local.sagemaker.jobs.base.threads import JobThreads
from shoal_local.sagemaker.jobs.training.training import TrainingJobs
from shoal_local.sagemaker.jobs.training.training_request import check_training_fields
from shoal_local.sagemaker.jobs.tuning.tuning_run import (
    TuningRun,
    objective_value,
    training_request,
    with_objective_parameter,
)
from shoal_local.sagemaker.jobs.tuning.tuning_search import search_for
from shoal_local.sagemaker.jobs.tuning.tuning_stopping import check_stopping
from shoal_local.sagemaker.listing import Listing
from shoal_local.sagemaker.shapes import Document

_LISTING = Listing(
    "HyperParameterTuningJobSummaries",
    "HyperParameterTuningJobSummary",
    "HyperParameterTuningJobName",
    "HyperParameterTuningJobStatus",
    default_order="Ascending",
)
_TRAINING_LISTING = Listing(
    "TrainingJobSummaries",
    "HyperParameterTrainingJobSummary",
    "TrainingJobName",
    "TrainingJobStatus",
    default_order="Ascending",
    extra_filters=frozenset({"HyperParameterTuningJobName"}),
)
_REFUSED = ("TrainingJobDefinitions", "WarmStartConfig", "Autotune")
_REFUSED_CONFIG = ("StrategyConfig",)
_REFUSED_DEFINITION = ("TuningObjective", "HyperParameterRanges")
_REFUSED_RESOURCES = ("InstanceConfigs", "AllocationStrategy")
_MAX_METRICS = 20
"""Developer guide, "Resource Limits for Automatic Model Tuning"."""


class TuningJobs:
    """The tuning jobs of the account; `training` runs their training jobs."""

    def __init__(self, core: Core, training: TrainingJobs) -> None:
        self._core, self._training = core, training
        self._running = JobThreads()

    def create(self, request: Document) -> Document:
        check_tuning(request)
        request = with_objective_parameter(request)
        name, now = request["HyperParameterTuningJobName"], names.now()
        document = {key: value for key, value in request.items() if key != "Tags"} | {
            "_name": name,
            "_tags": request.get("Tags", []),
            "HyperParameterTuningJobArn": self._core.arn("hyper-parameter-tuning-job", name),
            "HyperParameterTuningJobStatus": "InProgress",
            "CreationTime": now,
            "LastModifiedTime": now,
        }
        self._training.check(training_request(document, f"{name}-001-00000000", {}))
        self._core.store.create(TUNING.store, name, document, _name_in_use)
        job = Job(self._core, TUNING, name)
        self._running.start(job, TuningRun(job, self._training).run)
        return {"HyperParameterTuningJobArn": document["HyperParameterTuningJobArn"]}

    def describe(self, request: Document) -> Document:
        name = request["HyperParameterTuningJobName"]
        document = self._core.store.get(TUNING.store, name)
        if document is None:
            raise not_found(
                "Amazon SageMaker can't find a tuning job with the name"
                f" {self._core.arn('hyper-parameter-tuning-job', name)}"
            )
        summaries = training_summaries(self._core, document)
        best = {"BestTrainingJob": summaries[0]} if summaries else {}
        return document | _counters(self._core, document) | best

    def list(self, request: Document) -> Document:
        jobs = self._core.store.all(TUNING.store)
        entries = [
            each
            | _counters(self._core, each)
            | {
                key: each["HyperParameterTuningJobConfig"][key]
                for key in ("Strategy", "ResourceLimits")
            }
            for each in jobs
        ]
        return _LISTING.page(entries, {"SortBy": "Name"} | request)

    def training_jobs(self, request: Document) -> Document:
        document = self.describe(request)
        jobs = [_summary(each, document) for each in _children(self._core, document)]
        if request.get("SortBy") == _BY_OBJECTIVE:
            jobs = [
                each | {_BY_OBJECTIVE: each[_FINAL]["Value"]} for each in jobs if _FINAL in each
            ]
        return _TRAINING_LISTING.page(jobs, {"SortBy": "Name"} | request)

    def stop(self, request: Document) -> Document:
        document = self.describe(request)
        name, status = document["_name"], document["HyperParameterTuningJobStatus"]
        if status not in {"InProgress", "Stopping"}:
            raise invalid(f"The request was rejected because the tuning job is in status {status}.")
        Job(self._core, TUNING, name).change(_stopping)
        self._running.stop(name)
        return {}

    def close(self) -> None:
        self._running.close()


def check_tuning(request: Document) -> None:
    """Raise AwsError for what is wrong or not emulated."""
    for field in _REFUSED:
        if request.get(field):
            raise not_emulated(f"CreateHyperParameterTuningJob.{field}")
    if "TrainingJobDefinition" not in request:
        raise invalid("TrainingJobDefinition is required")
    config, definition = request["HyperParameterTuningJobConfig"], request["TrainingJobDefinition"]
    for field in _REFUSED_CONFIG:
        if config.get(field):
            raise not_emulated(f"HyperParameterTuningJobConfig.{field}")
    for field in _REFUSED_DEFINITION:
        if definition.get(field):
            raise not_emulated(f"TrainingJobDefinition.{field}")
    for field in _REFUSED_RESOURCES:
        if definition.get("HyperParameterTuningResourceConfig", {}).get(field):
            raise not_emulated(f"HyperParameterTuningResourceConfig.{field}")
    check_stopping(config)
    search_for(config)
    metrics = definition["AlgorithmSpecification"].get("MetricDefinitions", [])
    if len(metrics) > _MAX_METRICS:
        raise invalid(f"A tuning job defines at most {_MAX_METRICS} metrics, not {len(metrics)}")
    objective = config.get("HyperParameterTuningJobObjective", {}).get("MetricName")
    if objective not in {each["Name"] for each in metrics}:
        raise invalid(  # worded as users report it (aws/amazon-sagemaker-examples 1207)
            "A metric is required for this hyperparameter tuning job objective. Provide a metric"
            " in the metric definitions."
        )
    check_training_fields(training_request(request, "checked", {}))


_FINAL = "FinalHyperParameterTuningJobObjectiveMetric"
_BY_OBJECTIVE = "FinalObjectiveMetricValue"


def training_summaries(core: Core, tuning_job: Document) -> list[Document]:
    """Return the training jobs of a tuning job that have an objective value, the best first."""
    jobs = [_summary(each, tuning_job) for each in _children(core, tuning_job)]
    objective = tuning_job["HyperParameterTuningJobConfig"]["HyperParameterTuningJobObjective"]
    return sorted(
        (each for each in jobs if _FINAL in each),
        key=lambda each: float(each[_FINAL]["Value"]),
        reverse=objective["Type"] == "Maximize",
    )


def _children(core: Core, tuning_job: Document) -> list[Document]:
    arn = tuning_job["HyperParameterTuningJobArn"]
    return core.store.select(TRAINING.store, lambda each: bool(each.get("TuningJobArn") == arn))


def _summary(job: Document, tuning_job: Document) -> Document:
    """Return a HyperParameterTrainingJobSummary."""
    keys = ("TrainingJobName", "TrainingJobArn", "TrainingJobStatus", "CreationTime")
    optional = ("TrainingStartTime", "TrainingEndTime", "FailureReason")
    summary: Document = {key: job[key] for key in (*keys, *optional) if key in job}
    summary["TunedHyperParameters"] = job["_tuned"]
    value = objective_value(job, tuning_job)
    summary["ObjectiveStatus"] = (
        "Pending" if _is_pending(job) else "Failed" if value is None else "Succeeded"
    )
    if value is not None and not _is_pending(job):
        objective = tuning_job["HyperParameterTuningJobConfig"]["HyperParameterTuningJobObjective"]
        summary[_FINAL] = objective | {"Value": value}
    return summary


def _is_pending(job: Document) -> bool:
    return job["TrainingJobStatus"] in {"InProgress", "Stopping"}


_COUNTERS = {"Completed": "Completed", "Stopped": "Stopped", "Failed": "NonRetryableError"}


def _counters(core: Core, tuning_job: Document) -> Document:
    jobs: dict[str, int] = dict.fromkeys((*_COUNTERS.values(), "InProgress", "RetryableError"), 0)
    objectives = dict.fromkeys(("Succeeded", "Pending", "Failed"), 0)
    for each in _children(core, tuning_job):
        jobs[_COUNTERS.get(each["TrainingJobStatus"], "InProgress")] += 1
        objectives[_summary(each, tuning_job)["ObjectiveStatus"]] += 1
    return {"TrainingJobStatusCounters": jobs, "ObjectiveStatusCounters": objectives}


def _stopping(document: Document) -> None:
    if document["HyperParameterTuningJobStatus"] == "InProgress":
        document["HyperParameterTuningJobStatus"] = "Stopping"


def _name_in_use(existing: Document) -> AwsError:
    return in_use(
        "Hyperparameter tuning job names must be unique within an AWS account and region, and one"
        f" with this name already exists ({existing['HyperParameterTuningJobArn']})"
    )
