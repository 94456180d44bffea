"""CreateTrainingJob, DescribeTrainingJob, ListTrainingJobs, StopTrainingJob, UpdateTrainingJob."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from shoal_local.runtimes.catalog import Image
from shoal_local.sagemaker.errors import check_fields
from shoal_local.sagemaker.jobs.base import storage
from shoal_local.sagemaker.jobs.base.channels import check_objects
from shoal_local.sagemaker.jobs.base.containers import image_for
from shoal_local.sagemaker.jobs.base.job import TRAINING
from shoal_local.sagemaker.jobs.base.jobs import Jobs
from shoal_local.sagemaker.jobs.training import warm_pools
from shoal_local.sagemaker.jobs.training.capacity import check_quotas
from shoal_local.sagemaker.jobs.training.training_request import check_training
from shoal_local.sagemaker.jobs.training.training_run import TrainingRun, begin
from shoal_local.sagemaker.references import assume, check_keys, check_network
from shoal_local.sagemaker.shapes import Document

EMPTY: Mapping[str, Any] = MappingProxyType({})


class TrainingJobs(Jobs):
    """The training jobs of the account."""

    kind = TRAINING
    verbs: ClassVar[tuple[str, ...]] = (*Jobs.verbs, "update")

    def check(self, request: Document) -> Image:
        """Return the image's entry; raise AwsError for a request that cannot run.

        Role, network, keys and the channels' objects must exist.
        """
        check_training(request)
        uri, core = request["AlgorithmSpecification"]["TrainingImage"], self._core
        check_quotas(request, core.context.quota, self.holding())
        image = image_for(uri, "training", core.settings.images, core.context.region)
        role, name = request["RoleArn"], request["TrainingJobName"]
        credentials = assume(core, role, f"SageMaker-{name}")
        check_network(core, request.get("VpcConfig"))
        volume_key = request["ResourceConfig"].get("VolumeKmsKeyId")
        check_keys(core, request["OutputDataConfig"].get("KmsKeyId"), volume_key)
        check_objects(core, request, credentials)
        return image

    def create(self, request: Document, members: Mapping[str, Any] = EMPTY) -> Document:
        """Start a training job; `members` are added to its description."""
        image = self.check(request)
        job = self._keep_job(request, **self._members(request), **members)
        pool = warm_pools.claim(self._core, job.document())
        self._core.store.change(TRAINING.store, job.name, lambda each: each.update(pool))
        return self._start(TrainingRun(job, image), job)

    def _members(self, request: Document) -> Document:
        """Return what a description has at the start besides the request's members."""
        output = request["OutputDataConfig"]
        name = request["TrainingJobName"]
        # no page shows S3ModelArtifacts of an uncompressed model; SDK v2 appends a slash to it "if
        # necessary" (its estimator.py, model_data), so here one is
        last = "model" if output.get("CompressionType") == "NONE" else "model.tar.gz"
        model = storage.join_uri(output["S3OutputPath"], name, "output", last)
        traffic_encryption = request.get("EnableInterContainerTrafficEncryption", False)
        return {
            **begin(),
            **({"ProfilingStatus": "Disabled"} if "ProfilerConfig" in request else {}),
            "OutputDataConfig": {"KmsKeyId": "", **output},
            "ModelArtifacts": {"S3ModelArtifacts": model},
            "EnableNetworkIsolation": False,
            "EnableInterContainerTrafficEncryption": traffic_encryption,
            "EnableManagedSpotTraining": request.get("EnableManagedSpotTraining", False),
        }

    def describe(self, request: Document) -> Document:
        return warm_pools.as_of_now(super().describe(request))

    def _entry(self, request: Document, document: Document) -> Document | None:
        if "WarmPoolStatus" in document:  # which `as_of_now` may change
            document = warm_pools.as_of_now(copy.deepcopy(document))
        plan = document["ResourceConfig"].get("TrainingPlanArn")
        pool = document.get("WarmPoolStatus", {}).get("Status")
        if pool != request.get("WarmPoolStatusEquals", pool):
            return None
        if plan != request.get("TrainingPlanArnEquals", plan):
            return None
        return document | ({"TrainingPlanArn": plan} if plan else {})

    def update(self, request: Document) -> Document:
        """Change how long the job's warm pool is kept; nothing else is emulated."""
        check_fields("UpdateTrainingJob", request)
        job = self.describe(request)
        if "ResourceConfig" in request:
            seconds = request["ResourceConfig"]["KeepAlivePeriodInSeconds"]
            self._core.store.change(
                TRAINING.store, job["_name"], lambda each: warm_pools.update(each, seconds)
            )
        return {"TrainingJobArn": job["TrainingJobArn"]}
