"""Training jobs, and the life of one: its statuses from Starting to the end, and what decides them.

The final status comes from exit codes and from what was really uploaded; an unexpected error of
ours is InternalServerError and Failed.
"""

import copy
import time
from contextlib import closing
from functools import partial
from typing import Any, ClassVar

from shoal_local.context import Measurement
from shoal_local.runtimes.catalog import Image
from shoal_local.sagemaker import measurements, names
from shoal_local.sagemaker.jobs.base import storage
from shoal_local.sagemaker.jobs.base.channels import check_objects
from shoal_local.sagemaker.jobs.base.containers import image_for
from shoal_local.sagemaker.jobs.base.jobs import (
    TRAINING,
    Ending,
    EndReason,
    Job,
    JobFailedError,
    JobRun,
    Jobs,
    JobStoppedError,
    supervise,
)
from shoal_local.sagemaker.jobs.training import warm_pools
from shoal_local.sagemaker.jobs.training.capacity import (
    NO_CAPACITY,
    check_quotas,
    is_interrupted,
    take,
    time_left,
    waits,
)
from shoal_local.sagemaker.jobs.training.metrics import Metrics
from shoal_local.sagemaker.jobs.training.training_hosts import TrainingHosts
from shoal_local.sagemaker.jobs.training.training_request import check_training
from shoal_local.sagemaker.resources import assume, check_keys, check_network
from shoal_local.sagemaker.shapes import Document

_POLL_S = 0.2
_MESSAGES = {
    "Starting": "Starting the training job",
    "Pending": "Waiting for capacity of the requested instances",
    "Interrupted": "The managed spot training instances were interrupted",
    "Downloading": "Downloading input data",
    "Training": "Training image download completed. Training in progress.",
    "Stopping": "Stopping the training job",
    "Uploading": "Uploading generated training model",
    "Completed": "Training job completed",
    "Stopped": "Training job stopped",
    "MaxRuntimeExceeded": "Training job runtime exceeded MaxRuntimeInSeconds provided",
    "MaxWaitTimeExceeded": "Training job exceeded MaxWaitTimeInSeconds provided",
}


class TrainingRun(JobRun):
    """Runs the hosts of one job, again while its spot capacity is taken away."""

    def __init__(self, job: Job, image: Image) -> None:
        super().__init__(job, "training")
        self._image, self._exceeded = image, ""
        self._began_at, self._trained_s = time.monotonic(), 0.0
        definitions = self._request["AlgorithmSpecification"].get("MetricDefinitions", [])
        self._metrics = Metrics(definitions, self._publish)

    def _lifecycle(self) -> None:
        # A stop may come before there is a container to stop, so it is looked for at each step.
        self._job.check_not_stopped()
        self._job.check_capacity()
        self._take_instances()
        hosts = TrainingHosts(self._job, self._image, self._metrics.see)
        with closing(self._metrics), closing(hosts):
            began_at = names.now()
            while (ending := self._train(hosts, began_at)).reason is EndReason.INTERRUPTED:
                # Only a spot job is interrupted. It goes on with other instances, whose disks have
                # what a job starts with and the checkpoint in S3, and nothing else of this attempt.
                self._enter("Interrupted")
                self._job.check_not_stopped()
                self._enter("Starting")
                hosts.replace()
            if ending.reason is EndReason.EXITED and (reason := hosts.failure(ending)):
                raise JobFailedError(reason)
            # A job that is stopped may save its model within the grace (API_StopTrainingJob).
            self._enter("Uploading")
            hosts.upload()
            if ending.reason is not EndReason.EXITED:
                raise JobStoppedError

    def _take_instances(self) -> None:
        """Wait for capacity, and stop the job without any at the request's limit. The guide has no
        name for the end of that wait but that of MaxWaitTimeExceeded.
        """
        limit_s = waits(self._request)
        until = time.monotonic() + limit_s / self._job.core.settings.hosting_speed
        while take(self._job, self._request) is None:
            if not limit_s:
                raise JobFailedError(NO_CAPACITY)
            if self._job.document()["SecondaryStatus"] != "Pending":
                self._enter("Pending")
            if time.monotonic() >= until:
                self._exceeded = "MaxWaitTimeExceeded"
                raise JobStoppedError
            self._job.stop.wait(_POLL_S)
            self._job.check_not_stopped()

    def _train(self, hosts: TrainingHosts, began_at: float) -> Ending:
        self._enter("Downloading", TrainingStartTime=began_at)
        hosts.prepare()
        self._job.check_not_stopped()
        self._enter("Training")
        # Leaving the block uploads the last checkpoint; the job fails where that is refused.
        with hosts.running() as pod:
            started_at = time.monotonic()
            limit_s, limit = time_left(self._request, self._began_at, self._trained_s)
            interrupted = partial(is_interrupted, self._request, self._job.core.context.faults)
            ending = supervise(pod, self._job, limit_s, interrupted)
            self._exceeded = limit if ending.reason is EndReason.TIMED_OUT else ""
            self._trained_s += time.monotonic() - started_at
        if ending.reason is not EndReason.EXITED:
            hosts.note_signal()
        return ending

    def _publish(self, metric: str, value: float) -> None:
        where = {"TrainingJobName": self._job.name}
        self._job.core.context.measure(
            [Measurement(measurements.TRAINING, metric, value, "None", where)]
        )

    def _enter(self, secondary: str, **members: float) -> None:
        """Begin a secondary status; the one before it ends."""

        def edit(document: Document) -> None:
            _transition(document, secondary, _MESSAGES.get(secondary, secondary))
            document.update(members)

        self._job.change(edit)

    def _end(self, document: Document, status: str, reason: str) -> None:
        """Add the last secondary status, with its times, and what becomes of the warm pool."""
        super()._end(document, status, reason)
        ended_at = document["TrainingEndTime"]
        secondary = self._exceeded if status == "Stopped" and self._exceeded else status
        _transition(document, secondary, document.get("FailureReason") or _MESSAGES[secondary])
        document["SecondaryStatusTransitions"][-1]["EndTime"] = ended_at
        warm_pools.job_ended(document)
        seconds = max(1, round(ended_at - document.get("TrainingStartTime", ended_at)))
        document.update(
            TrainingTimeInSeconds=seconds,
            BillableTimeInSeconds=seconds,
            FinalMetricDataList=self._metrics.final(),
        )


def _transition(document: Document, secondary: str, message: str) -> None:
    now = names.now()
    transitions = document["SecondaryStatusTransitions"]
    if transitions and "EndTime" not in transitions[-1]:
        transitions[-1]["EndTime"] = now
    transitions.append({"Status": secondary, "StartTime": now, "StatusMessage": message})
    document["SecondaryStatus"] = secondary


class TrainingJobs(Jobs):
    """The training jobs of the account."""

    kind = TRAINING
    verbs: ClassVar[tuple[str, ...]] = (*Jobs.verbs, "update")

    def check(self, request: Document) -> Image:
        """Return the image's entry; raise AwsError if what the request names is not there."""
        check_training(request)
        uri, core = request["AlgorithmSpecification"]["TrainingImage"], self._core
        check_quotas(request, core.context.quota, self.holding())
        image = image_for(core, uri, "training")
        credentials = assume(core, request["RoleArn"], request["TrainingJobName"])
        check_network(core, request.get("VpcConfig"))
        volume_key = request["ResourceConfig"].get("VolumeKmsKeyId")
        check_keys(core, request["OutputDataConfig"].get("KmsKeyId"), volume_key)
        check_objects(core, request, credentials)
        return image

    def create(self, request: Document, **members: Any) -> Document:
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
        members = {
            "SecondaryStatusTransitions": [],
            **({"ProfilingStatus": "Disabled"} if "ProfilerConfig" in request else {}),
            "OutputDataConfig": {"KmsKeyId": "", **output},
            "ModelArtifacts": {"S3ModelArtifacts": model},
            "EnableNetworkIsolation": False,
            "EnableInterContainerTrafficEncryption": traffic_encryption,
            "EnableManagedSpotTraining": request.get("EnableManagedSpotTraining", False),
        }
        _transition(members, "Starting", _MESSAGES["Starting"])
        return members

    def describe(self, request: Document) -> Document:
        return warm_pools.as_of_now(super().describe(request))

    def _entry(self, request: Document, document: Document) -> Document | None:
        if "WarmPoolStatus" in document:  # which `as_of_now` may change
            document = warm_pools.as_of_now(copy.deepcopy(document))
        pool = document.get("WarmPoolStatus", {}).get("Status")
        return document if pool == request.get("WarmPoolStatusEquals", pool) else None

    def update(self, request: Document) -> Document:
        """Change how long the job's warm pool is kept; nothing else is emulated."""
        job = self.describe(request)
        if "ResourceConfig" in request:
            seconds = request["ResourceConfig"]["KeepAlivePeriodInSeconds"]
            self._core.store.change(
                TRAINING.store, job["_name"], lambda each: warm_pools.update(each, seconds)
            )
        return {"TrainingJobArn": job["TrainingJobArn"]}
