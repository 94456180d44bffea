"""One training job from Starting to its end: input from S3, AWS's own toolkit in containers, model
and outputs to S3.

The status comes from exit codes and from what was really uploaded; an unexpected error of ours is
InternalServerError and Failed.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from typing import Any

from shoal_local.errors import AwsError
from shoal_local.runtimes.catalog import Image
from shoal_local.sagemaker import measurements, names
from shoal_local.sagemaker.container.launch import (
    Host,
    Pod,
    PodError,
    isolation_refused,
    networks_refused,
)
from shoal_local.sagemaker.container.network import INTERFACE
from shoal_local.sagemaker.jobs import containers, storage
from shoal_local.sagemaker.jobs.channels import Channels
from shoal_local.sagemaker.jobs.job import Job, JobFailedError, JobStoppedError, failure_reason
from shoal_local.sagemaker.jobs.logs import LogStreams
from shoal_local.sagemaker.jobs.metrics import Metrics
from shoal_local.sagemaker.jobs.paths import HostPaths, JobPaths
from shoal_local.sagemaker.jobs.runtime_build import (
    BuildStoppedError,
    RuntimeBuildError,
    make_sure_it_is_built,
)
from shoal_local.sagemaker.jobs.spot import Allowance, loses_its_capacity
from shoal_local.sagemaker.jobs.storage import DataError, FolderSync
from shoal_local.sagemaker.jobs.wait import Ended, Ending, supervise
from shoal_local.sagemaker.shapes import Document

_LONGEST_FAILURE = 64 * 1024
"""Characters of a failure file that are read; the API shows 1024."""
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

    def __init__(self, job: Job, image: Image, machine: containers.Machine) -> None:
        self._job, self._image, self._machine = job, image, machine
        self._request = job.document()
        self._paths = JobPaths.of(job.core.context.state_dir, "training", job.name)
        count = self._request["ResourceConfig"]["InstanceCount"]
        self._hosts = (
            ["localhost"]
            if isolation_refused()
            else [f"algo-{number}" for number in range(1, count + 1)]
        )
        self._addresses = containers.addresses(self._hosts)
        self._allowance, self._limit = Allowance(self._request), ""
        self._metrics = Metrics(
            self._request["AlgorithmSpecification"].get("MetricDefinitions", []), self._publish
        )

    def run(self) -> None:
        try:
            self._finish(*self._lifecycle())
        except (JobStoppedError, BuildStoppedError):
            self._finish("Stopped", "Stopped", "")
        except (JobFailedError, DataError, PodError, RuntimeBuildError, AwsError) as failed:
            self._finish(
                "Failed",
                "Failed",
                f"{'' if isinstance(failed, JobFailedError) else 'ClientError: '}{failed}",
            )
        except Exception as bug:  # noqa: BLE001 (a job must never stay InProgress; the reason names the bug)
            (self._paths.folder / "emulator-error.txt").write_text(traceback.format_exc())
            self._finish(
                "Failed",
                "Failed",
                f"InternalServerError: We encountered an internal error of the emulator: {bug!r}",
            )

    def _lifecycle(self) -> tuple[str, str, str]:
        """Status, secondary status and failure reason."""
        context = self._job.core.context
        self._job.check_not_stopped()
        self._job.check_capacity()
        self._credentials = context.role_credentials(
            self._request["RoleArn"], f"SageMaker-{self._job.name}"[:64]
        )
        context.on_behalf("training-job", self._job.name, self._request, self._credentials)
        self._s3 = context.clients("s3", self._credentials)
        self._channels = Channels(self._request, context, self._credentials, self._hosts)
        self._paths.make(self._hosts, self._addresses)
        self._log = LogStreams(
            context.clients("logs", self._credentials),
            self._job.kind.log_group,
            self._job.name,
            self._paths.log,
        )
        try:
            self._enter(
                "Downloading", lambda document: document.update(TrainingStartTime=names.now())
            )
            self._get_ready()
            ending = self._train()
            while ending.how is Ended.INTERRUPTED:
                self._begin_again()
                ending = self._train()
        finally:
            self._log.close()
        return self._conclude(ending)

    def _get_ready(self) -> None:
        """The image, then each host's data."""
        core = self._job.core
        if self._image.is_declared:
            self._say(
                containers.about_declared(
                    self._request["AlgorithmSpecification"]["TrainingImage"], self._image
                )
            )
        if notice := self._machine.notice(
            self._request["ResourceConfig"]["InstanceType"], len(self._hosts)
        ):
            self._say(notice)
        make_sure_it_is_built(
            self._image.runtime, core.registry, self._say, self._job.orders.stop.is_set
        )
        for position, host in enumerate(self._hosts):
            self._prepare(self._paths.host(host), host, position)
        if self._addresses:
            containers.give_secret([self._paths.host(host) for host in self._hosts])

    def _begin_again(self) -> None:
        """On other instances, whose disks have what a job starts with and its checkpoint, and
        nothing else of the attempt before.
        """
        self._enter("Interrupted")
        self._job.check_not_stopped()
        self._enter("Starting")
        self._paths.renew(self._hosts, self._addresses)
        self._enter("Downloading")
        self._get_ready()

    def _say(self, line: str) -> None:
        """Into the job's log, in a stream that is not a host's."""
        self._log.write("emulator", line)

    def _prepare(self, paths: HostPaths, host: str, position: int) -> None:
        for folder in (paths.model, paths.output_data, paths.config, paths.ml / "code"):
            folder.mkdir(parents=True, exist_ok=True)
        for channel in self._channels:
            self._job.check_not_stopped()
            self._channels.bring(channel, paths, position)
        if "CheckpointConfig" in self._request:
            storage.fetch_prefix(
                self._s3,
                self._request["CheckpointConfig"]["S3Uri"].rstrip("/") + "/",
                self._checkpoints(paths),
            )
        for name, content in self._configuration(host).items():
            (paths.config / name).write_text(json.dumps(content))
        containers.give_accelerators(paths, self._accelerators())

    def _checkpoints(self, paths: HostPaths) -> Any:
        return paths.seen_as(
            self._request["CheckpointConfig"].get("LocalPath", "/opt/ml/checkpoints")
        )

    def _accelerators(self) -> int:
        return self._machine.accelerators(
            self._request["ResourceConfig"]["InstanceType"], len(self._hosts)
        )

    def _configuration(self, host: str) -> dict[str, Document]:
        """The three files that the toolkit reads (dg
        your-algorithms-training-algo-running-container).
        """
        instance_type = self._request["ResourceConfig"]["InstanceType"]
        group = {
            "instance_group_name": "homogeneousCluster",
            "instance_type": instance_type,
            "hosts": self._hosts,
        }
        return {
            "hyperparameters.json": self._request.get("HyperParameters", {}),
            "inputdataconfig.json": self._channels.configuration(),
            "resourceconfig.json": {
                "current_host": host,
                "current_instance_type": instance_type,
                "current_group_name": "homogeneousCluster",
                "hosts": self._hosts,
                "instance_groups": [group],
                "network_interface_name": INTERFACE if self._addresses else "lo",
            },
        }

    def _train(self) -> Ending:
        context = self._job.core.context
        self._job.check_not_stopped()
        self._enter("Training")
        syncs: list[FolderSync] = []
        try:
            if reason := isolation_refused():
                self._say(
                    f"No Linux namespaces here ({reason}): files are at SAGEMAKER_BASE_DIR, the"
                    " network is shared."
                )
            elif len(self._hosts) > 1 and (reason := networks_refused()):
                self._say(
                    f"No networks of their own for hosts here ({reason}): they share one loopback"
                    " interface."
                )
            pod = Pod(
                self._paths.folder,
                [self._host(name) for name in self._hosts],
                self._job.core.registry,
            )
            syncs = self._sync_checkpoints()
            pod.start(
                containers.visible(self._image), containers.endpoint_port(context), self._saw_line
            )
            return self._watch(pod)
        finally:
            for sync in syncs:
                sync.close()

    def _watch(self, pod: Pod) -> Ending:
        begun, settings = time.monotonic(), self._job.core.settings
        limit_s, self._limit = self._allowance.left()
        ending = supervise(
            pod, self._job.orders, limit_s, settings.stop_grace_s, self._is_interrupted
        )
        self._allowance.used(time.monotonic() - begun)
        return ending

    def _is_interrupted(self) -> bool:
        return loses_its_capacity(self._request, self._job.core.context.faults)

    def _saw_line(self, host: str, line: str) -> None:
        self._log.write(host, line)
        self._metrics.see(line)

    def _publish(self, metric: str, value: float) -> None:
        self._job.core.measure([measurements.of_training(self._job.name, metric, value)])

    def _sync_checkpoints(self) -> list[FolderSync]:
        if "CheckpointConfig" not in self._request:
            return []
        uri = self._request["CheckpointConfig"]["S3Uri"]
        return [
            FolderSync(self._s3, self._checkpoints(self._paths.host(name)), uri)
            for name in self._hosts
        ]

    def _host(self, name: str) -> Host:
        paths = self._paths.host(name)
        ranks = self._processes_per_host() * len(self._hosts)
        own = {
            "TRAINING_JOB_NAME": self._job.name,
            "TRAINING_JOB_ARN": self._request["TrainingJobArn"],
            **containers.threads(self._machine, ranks),
            **self._request.get("Environment", {}),
        }
        algorithm = self._request["AlgorithmSpecification"]
        toolkit = [str(self._image.runtime.python()), "-P", containers.tool(self._image.program)]
        command = [
            *algorithm.get("ContainerEntrypoint", toolkit),
            *algorithm.get("ContainerArguments", []),
        ]
        environment = containers.environment(
            self._job.core.context, self._image, paths, self._credentials, own
        )
        read_only = self._channels.read_only(paths)
        return Host(
            name,
            paths.folder,
            command,
            environment,
            address=self._addresses.get(name),
            read_only=read_only,
        )

    def _processes_per_host(self) -> int:
        """As the toolkit counts them: what MPI's hyperparameter says, else an accelerator each,
        else one.
        """
        told = str(
            self._request.get("HyperParameters", {}).get(
                "sagemaker_mpi_num_of_processes_per_host", ""
            )
        ).strip('"')
        return int(told) if told.isdecimal() and int(told) else max(1, self._accelerators())

    def _conclude(self, ending: Ending) -> tuple[str, str, str]:
        if ending.how is Ended.BY_ITSELF and ending.exit_code != 0:
            raise JobFailedError(self._algorithm_error(ending))
        if ending.how is Ended.BY_ITSELF and (
            failures := [told for name in self._hosts if (told := self._failure_file(name))]
        ):
            raise JobFailedError(f"AlgorithmError: {failures[0]}, exit code: 0")
        self._enter("Uploading")
        self._upload()
        if ending.how is Ended.BY_ITSELF:
            return "Completed", "Completed", ""
        return "Stopped", "Stopped" if ending.how is Ended.STOPPED else self._limit, ""

    def _algorithm_error(self, ending: Ending) -> str:
        """What the host that failed first says, by name if there are several."""
        guilty = next((name for name, code in ending.exit_codes.items() if code), self._hosts[0])
        told = self._failure_file(guilty) or self._evidence(guilty)
        return (
            f"AlgorithmError: {f'{guilty}: ' if len(self._hosts) > 1 else ''}{told}, exit code:"
            f" {ending.exit_code}"
        )

    def _evidence(self, host: str) -> str:
        """The last lines of a host that left no failure file."""
        lines = [
            line.removeprefix(f"{host} ")
            for line in self._log.tail(200)
            if line.startswith(f"{host} ")
        ]
        return "; ".join(lines[-5:]) or "the container wrote nothing"

    def _failure_file(self, host: str) -> str | None:
        path = self._paths.host(host).failure
        if not path.is_file() or path.is_symlink():
            return None
        with path.open(errors="replace") as file:
            return file.read(_LONGEST_FAILURE).strip() or None

    def _upload(self) -> None:
        """model.tar.gz and output.tar.gz of the first host; an empty folder gives no archive, as on
        AWS.
        """
        first, key = (
            self._paths.host(self._hosts[0]),
            self._request["OutputDataConfig"].get("KmsKeyId", ""),
        )
        uploads = (
            (first.model, self._request["ModelArtifacts"]["S3ModelArtifacts"]),
            (first.output_data, self._output_uri()),
        )
        for folder, uri in uploads:
            target = self._paths.upload / uri.rpartition("/")[2]
            if storage.archive(folder, target):
                storage.put_file(self._s3, target, uri, key)

    def _output_uri(self) -> str:
        return (
            str(self._request["ModelArtifacts"]["S3ModelArtifacts"]).rpartition("/")[0]
            + "/output.tar.gz"
        )

    def _enter(
        self, secondary: str, also: Callable[[Document], None] = lambda _document: None
    ) -> None:
        """Begin a secondary status; the one before it ends."""

        def edit(document: Document) -> None:
            _transition(document, secondary, _MESSAGES.get(secondary, secondary))
            also(document)

        self._job.change(edit)

    def _finish(self, status: str, secondary: str, reason: str) -> None:
        def edit(document: Document) -> None:
            ended_at = names.now()
            document.update(TrainingJobStatus=status, TrainingEndTime=ended_at)
            if reason:
                document["FailureReason"] = failure_reason(reason)
            _transition(document, secondary, document.get("FailureReason") or _MESSAGES[secondary])
            document["SecondaryStatusTransitions"][-1]["EndTime"] = ended_at
            seconds = max(1, round(ended_at - document.get("TrainingStartTime", ended_at)))
            document.update(
                TrainingTimeInSeconds=seconds,
                BillableTimeInSeconds=seconds,
                FinalMetricDataList=self._metrics.final(),
            )

        self._job.change(edit)


def _transition(document: Document, secondary: str, message: str) -> None:
    now = names.now()
    transitions = document["SecondaryStatusTransitions"]
    if transitions and "EndTime" not in transitions[-1]:
        transitions[-1]["EndTime"] = now
    transitions.append({"Status": secondary, "StartTime": now, "StatusMessage": message})
    document["SecondaryStatus"] = secondary
