"""Hyperparameter tuning jobs: Create, Describe, List, Stop, and the list of their training jobs.

What a description counts and the best training job come from the training jobs themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid, refuse_fields
from shoal_local.sagemaker.jobs.base.job import END_STATUSES, TRAINING, TUNING
from shoal_local.sagemaker.jobs.base.jobs import Jobs
from shoal_local.sagemaker.jobs.training.training import TrainingJobs
from shoal_local.sagemaker.jobs.training.training_request import check_training
from shoal_local.sagemaker.jobs.tuning.tuning_run import (
    TuningRun,
    objective_value,
    training_request,
    with_objective_parameter,
)
from shoal_local.sagemaker.jobs.tuning.tuning_search import search_for
from shoal_local.sagemaker.listing import Listing
from shoal_local.sagemaker.shapes import Document, only_members

_TRAINING_LISTING = Listing(
    "TrainingJobSummaries",
    "HyperParameterTrainingJobSummary",
    "TrainingJobName",
    "TrainingJobStatus",
    default_order="Ascending",
    extra_filters=frozenset({"HyperParameterTuningJobName"}),
)
_FINAL = "FinalHyperParameterTuningJobObjectiveMetric"
_BY_OBJECTIVE = "FinalObjectiveMetricValue"
_COUNTERS = {"Completed": "Completed", "Stopped": "Stopped", "Failed": "NonRetryableError"}


class TuningJobs(Jobs):
    """The tuning jobs of the account; `training` runs their training jobs."""

    def __init__(self, core: Core, training: TrainingJobs) -> None:
        super().__init__(core, TUNING)
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

    def list(
        self,
        request: Document,
        entry: Callable[[Document], Document | None] = lambda document: document,
    ) -> Document:
        def counted(document: Document) -> Document:
            config = document["HyperParameterTuningJobConfig"]
            limits: Document = {key: config[key] for key in ("Strategy", "ResourceLimits")}
            return document | _counters(self._core, document) | limits

        return super().list({"SortBy": "Name"} | request, counted)

    def training_jobs(self, request: Document) -> Document:
        document = self.find(request["HyperParameterTuningJobName"])
        jobs = [_summary(each, document) for each in _children(self._core, document)]
        if request.get("SortBy") == _BY_OBJECTIVE:
            jobs = [
                each | {_BY_OBJECTIVE: each[_FINAL]["Value"]} for each in jobs if _FINAL in each
            ]
        return _TRAINING_LISTING.page(jobs, {"SortBy": "Name"} | request)


def check_tuning(request: Document) -> None:
    """Raise AwsError for what is wrong or not emulated."""
    refuse_fields("CreateHyperParameterTuningJob", request)
    if "TrainingJobDefinition" not in request:
        raise invalid("TrainingJobDefinition is required")
    config, definition = request["HyperParameterTuningJobConfig"], request["TrainingJobDefinition"]
    search_for(config)
    metrics = definition["AlgorithmSpecification"].get("MetricDefinitions", [])
    objective = config.get("HyperParameterTuningJobObjective", {}).get("MetricName")
    if objective not in {each["Name"] for each in metrics}:
        raise invalid(  # worded as users report it (aws/amazon-sagemaker-examples 1207)
            "A metric is required for this hyperparameter tuning job objective. Provide a metric"
            " in the metric definitions."
        )
    check_training(training_request(request, "checked", {}))


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
    arn = tuning_job[TUNING.arn_key]
    return core.store.select(TRAINING.store, lambda each: bool(each.get("TuningJobArn") == arn))


def _summary(job: Document, tuning_job: Document) -> Document:
    """Return a HyperParameterTrainingJobSummary."""
    value = objective_value(job, tuning_job)
    objective = tuning_job["HyperParameterTuningJobConfig"]["HyperParameterTuningJobObjective"]
    final: dict[str, Any] = {_FINAL: objective | {"Value": value}}
    status = "Failed" if value is None else "Succeeded"
    if job["TrainingJobStatus"] not in END_STATUSES:
        status = "Pending"
    members = {"TunedHyperParameters": job["_tuned"], "ObjectiveStatus": status}
    summary = job | members | (final if status == "Succeeded" else {})
    return only_members("HyperParameterTrainingJobSummary", summary)


def _counters(core: Core, tuning_job: Document) -> Document:
    jobs: dict[str, int] = dict.fromkeys((*_COUNTERS.values(), "InProgress", "RetryableError"), 0)
    objectives = dict.fromkeys(("Succeeded", "Pending", "Failed"), 0)
    for each in _children(core, tuning_job):
        jobs[_COUNTERS.get(each["TrainingJobStatus"], "InProgress")] += 1
        objectives[_summary(each, tuning_job)["ObjectiveStatus"]] += 1
    return {"TrainingJobStatusCounters": jobs, "ObjectiveStatusCounters": objectives}
