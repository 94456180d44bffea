"""The life of one training job: its statuses from Starting to the end, and what decides them.

What happens on the job's hosts is in `training_hosts`. The final status comes from exit codes and
from what was really uploaded; an unexpected error of ours is InternalServerError and Failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from shoal_local.runtimes.catalog import Image
from shoal_local.sagemaker import measurements, names
from shoal_local.sagemaker.container.launch import Pod
from shoal_local.sagemaker.jobs.base.containers import Machine
from shoal_local.sagemaker.jobs.base.ending import ended_by
from shoal_local.sagemaker.jobs.base.job import Job, JobFailedError, failure_reason
from shoal_local.sagemaker.jobs.base.wait import Ending, EndReason, supervise
from shoal_local.sagemaker.jobs.training import warm_pools
from shoal_local.sagemaker.jobs.training.metrics import Metrics
from shoal_local.sagemaker.jobs.training.spot import Allowance, is_interrupted
from shoal_local.sagemaker.jobs.training.training_hosts import TrainingHosts, job_paths
from shoal_local.sagemaker.shapes import Document

_MESSAGES = {
    "Starting": "Starting the training job",
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


class TrainingRun:
    """Runs in a thread of its own; `run()` returns when the job has ended, whichever way."""

    def __init__(
        self,
        job: Job,
        image: Image,
        machine: Machine,
        on_metric: Callable[[str, float], None],
    ) -> None:
        self._job, self._image, self._machine = job, image, machine
        self._on_metric = on_metric
        self._request = job.document()
        self._allowance, self._limit = Allowance(self._request), ""
        self._metrics = Metrics(
            self._request["AlgorithmSpecification"].get("MetricDefinitions", []), self._publish
        )

    def run(self) -> None:
        try:
            self._finish(*self._lifecycle())
        except Exception as error:  # noqa: BLE001 (a job must never stay InProgress)
            status, reason = ended_by(error, job_paths(self._job).folder)
            self._finish(status, status, reason)

    def _lifecycle(self) -> tuple[str, str, str]:
        """Return the status, the secondary status and the failure reason."""
        # A stop may come before there is a container to stop, so it is looked for at each step.
        self._job.check_not_stopped()
        self._job.check_capacity()
        with TrainingHosts.open(self._job, self._image, self._machine, self._metrics.see) as hosts:
            self._enter(
                "Downloading", lambda document: document.update(TrainingStartTime=names.now())
            )
            hosts.prepare()
            ending = self._train(hosts)
            # Only a spot job is interrupted. It goes on with other instances, whose disks have
            # what a job starts with and the checkpoint in S3, and nothing else of this attempt.
            while ending.reason is EndReason.INTERRUPTED:
                self._enter("Interrupted")
                self._job.check_not_stopped()
                self._enter("Starting")
                hosts.replace()
                self._enter("Downloading")
                hosts.prepare()
                ending = self._train(hosts)
        return self._conclude(hosts, ending)

    def _train(self, hosts: TrainingHosts) -> Ending:
        self._job.check_not_stopped()
        self._enter("Training")
        # Leaving the block uploads the last checkpoint; the job fails where that is refused.
        with hosts.running() as pod:
            return self._watch(pod)

    def _watch(self, pod: Pod) -> Ending:
        started_at, settings = time.monotonic(), self._job.core.settings
        limit_s, self._limit = self._allowance.remaining()
        ending = supervise(
            pod, self._job.orders, limit_s, settings.stop_grace_s, self._is_interrupted
        )
        self._allowance.add_attempt(time.monotonic() - started_at)
        return ending

    def _is_interrupted(self) -> bool:
        return is_interrupted(self._request, self._job.core.context.faults)

    def _publish(self, metric: str, value: float) -> None:
        self._job.core.measure([measurements.of_training(self._job.name, metric, value)])
        self._on_metric(metric, value)

    def _conclude(self, hosts: TrainingHosts, ending: Ending) -> tuple[str, str, str]:
        if ending.reason is EndReason.EXITED and (reason := hosts.failure(ending)):
            raise JobFailedError(reason)
        # A job that is stopped may save its model within the grace (API_StopTrainingJob).
        self._enter("Uploading")
        hosts.upload()
        if ending.reason is EndReason.EXITED:
            return "Completed", "Completed", ""
        return "Stopped", "Stopped" if ending.reason is EndReason.STOPPED else self._limit, ""

    def _enter(
        self, secondary: str, edit_more: Callable[[Document], None] = lambda _document: None
    ) -> None:
        """Begin a secondary status; the one before it ends."""

        def edit(document: Document) -> None:
            _transition(document, secondary, _MESSAGES.get(secondary, secondary))
            edit_more(document)

        self._job.change(edit)

    def _finish(self, status: str, secondary: str, reason: str) -> None:
        def edit(document: Document) -> None:
            end_training(document, status, secondary, reason)
            document["FinalMetricDataList"] = self._metrics.final()

        self._job.change(edit)


def end_training(document: Document, status: str, secondary: str, reason: str) -> None:
    """Set a job's last status, with its times and its warm pool."""
    ended_at = names.now()
    document.update(TrainingJobStatus=status, TrainingEndTime=ended_at)
    if reason:
        document["FailureReason"] = failure_reason(reason)
    _transition(document, secondary, document.get("FailureReason") or _MESSAGES[secondary])
    document["SecondaryStatusTransitions"][-1]["EndTime"] = ended_at
    warm_pools.job_ended(document)
    seconds = max(1, round(ended_at - document.get("TrainingStartTime", ended_at)))
    document.update(TrainingTimeInSeconds=seconds, BillableTimeInSeconds=seconds)


def _transition(document: Document, secondary: str, message: str) -> None:
    now = names.now()
    transitions = document["SecondaryStatusTransitions"]
    if transitions and "EndTime" not in transitions[-1]:
        transitions[-1]["EndTime"] = now
    transitions.append({"Status": secondary, "StartTime": now, "StatusMessage": message})
    document["SecondaryStatus"] = secondary
