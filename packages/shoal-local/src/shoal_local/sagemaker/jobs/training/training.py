"""CreateTrainingJob, DescribeTrainingJob, ListTrainingJobs, StopTrainingJob, UpdateTrainingJob."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from shoal_local.errors import AwsError
from shoal_local.runtimes.catalog import Image
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import in_use, invalid, not_emulated
from shoal_local.sagemaker.jobs.base import storage
from shoal_local.sagemaker.jobs.base.channels import check_objects
from shoal_local.sagemaker.jobs.base.containers import Machine
from shoal_local.sagemaker.jobs.base.job import TRAINING, Job
from shoal_local.sagemaker.jobs.base.threads import JobThreads
from shoal_local.sagemaker.jobs.training import warm_pools
from shoal_local.sagemaker.jobs.training.training_request import check_training
from shoal_local.sagemaker.jobs.training.training_run import TrainingRun
from shoal_local.sagemaker.listing import Listing
from shoal_local.sagemaker.references import assume, check_keys, check_network
from shoal_local.sagemaker.shapes import Document

_LISTING = Listing(
    "TrainingJobSummaries",
    "TrainingJobSummary",
    "TrainingJobName",
    "TrainingJobStatus",
    default_order="Ascending",
    extra_filters=frozenset({"WarmPoolStatusEquals", "TrainingPlanArnEquals"}),
)

EMPTY: Mapping[str, Any] = MappingProxyType({})


class TrainingJobs:
    """The training jobs of the account."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._running = JobThreads()
        self._machine = Machine.here(core.settings.accelerators)

    def check(self, request: Document) -> Image:
        """Return the image's entry; raise AwsError for a request that cannot run."""
        image = check_training(request, self._core.settings.images, self._core.context.region)
        self._check_references(request)
        return image

    def create(
        self,
        request: Document,
        members: Mapping[str, Any] = EMPTY,
        on_metric: Callable[[str, float], None] = lambda _metric, _value: None,
    ) -> Document:
        """Start a training job; `members` are added to its description.

        `on_metric(metric, value)` is called for each value that the job prints.
        """
        image = self.check(request)
        name = request["TrainingJobName"]
        document = self._document(request) | dict(members)
        self._core.store.create(TRAINING.store, name, document, _name_in_use)
        pool = warm_pools.claim(self._core, document)
        self._core.store.change(TRAINING.store, name, lambda each: each.update(pool))
        job = Job(self._core, TRAINING, name)
        self._running.start(job, TrainingRun(job, image, self._machine, on_metric).run)
        return {"TrainingJobArn": document["TrainingJobArn"]}

    def _check_references(self, request: Document) -> None:
        """Raise ValidationException if role, network, keys or a channel's objects do not exist."""
        credentials = assume(
            self._core, request["RoleArn"], f"SageMaker-{request['TrainingJobName']}"
        )
        check_network(self._core, request.get("VpcConfig"))
        check_keys(
            self._core,
            request["OutputDataConfig"].get("KmsKeyId"),
            request["ResourceConfig"].get("VolumeKmsKeyId"),
        )
        check_objects(self._core, request, credentials)

    def _document(self, request: Document) -> Document:
        now, name = names.now(), request["TrainingJobName"]
        members = {key: value for key, value in request.items() if key != "Tags"}
        output = storage.join_uri(
            request["OutputDataConfig"]["S3OutputPath"], name, "output", "model.tar.gz"
        )
        members["OutputDataConfig"] = {"KmsKeyId": "", **request["OutputDataConfig"]}
        if "ProfilerConfig" in request:
            members["ProfilingStatus"] = "Disabled"
        return members | {
            "_name": name,
            "_tags": request.get("Tags", []),
            "TrainingJobArn": self._core.arn("training-job", name),
            "TrainingJobStatus": "InProgress",
            "SecondaryStatus": "Starting",
            "SecondaryStatusTransitions": [
                {
                    "Status": "Starting",
                    "StartTime": now,
                    "StatusMessage": "Starting the training job",
                }
            ],
            "ModelArtifacts": {"S3ModelArtifacts": output},
            "EnableNetworkIsolation": False,
            "EnableInterContainerTrafficEncryption": request.get(
                "EnableInterContainerTrafficEncryption", False
            ),
            "EnableManagedSpotTraining": request.get("EnableManagedSpotTraining", False),
            "CreationTime": now,
            "LastModifiedTime": now,
        }

    def describe(self, request: Document) -> Document:
        document = self._core.store.get(TRAINING.store, request["TrainingJobName"])
        if document is None:
            raise invalid("Requested resource not found.")
        return warm_pools.as_of_now(document)

    def list(self, request: Document) -> Document:
        def entry(document: Document) -> Document | None:
            job = _summary(document)
            return job if _is_listed(job, request) else None

        return self._core.store.listed(
            TRAINING.store, lambda jobs: _LISTING.page(jobs, request, entry, in_order=True)
        )

    def update(self, request: Document) -> Document:
        """Change how long the job's warm pool is kept; nothing else is emulated."""
        for field in ("ProfilerConfig", "ProfilerRuleConfigurations", "RemoteDebugConfig"):
            if request.get(field):
                raise not_emulated(f"UpdateTrainingJob.{field}")
        job = self.describe(request)
        if "ResourceConfig" in request:
            seconds = request["ResourceConfig"]["KeepAlivePeriodInSeconds"]
            self._core.store.change(
                TRAINING.store, job["_name"], lambda each: warm_pools.update(each, seconds)
            )
        return {"TrainingJobArn": job["TrainingJobArn"]}

    def stop(self, request: Document) -> Document:
        document = self.describe(request)
        name, status = request["TrainingJobName"], document["TrainingJobStatus"]
        if status not in {"InProgress", "Stopping"}:
            raise invalid(
                f"The request was rejected because the training job is in status {status}."
            )
        self.order_stop(name)
        return {}

    def order_stop(self, name: str) -> None:
        """Stop a job, if it has not just ended."""
        Job(self._core, TRAINING, name).change(_stopping)
        self._running.stop(name)

    def close(self) -> None:
        self._running.close()


def _summary(document: Document) -> Document:
    plan = document["ResourceConfig"].get("TrainingPlanArn")
    if "WarmPoolStatus" in document:  # which `as_of_now` may change
        document = copy.deepcopy(document)
    return warm_pools.as_of_now(document) | ({"TrainingPlanArn": plan} if plan else {})


def _is_listed(job: Document, request: Document) -> bool:
    pool, plan = request.get("WarmPoolStatusEquals"), request.get("TrainingPlanArnEquals")
    has_pool = pool in {None, job.get("WarmPoolStatus", {}).get("Status")}
    return has_pool and plan in {None, job.get("TrainingPlanArn")}


def _stopping(document: Document) -> None:
    if document["TrainingJobStatus"] == "InProgress":
        document.update(TrainingJobStatus="Stopping", SecondaryStatus="Stopping")


def _name_in_use(existing: Document) -> AwsError:
    return in_use(
        "Training job names must be unique within an AWS account and region, and a training job"
        f" with this name already exists ({existing['TrainingJobArn']})"
    )
