"""The life of one processing job: inputs from S3, the container's command, outputs to S3.

Completed means that the command exited with 0 and every output was really uploaded. An output
without files is a failure.
"""

from __future__ import annotations

import json
from pathlib import Path

from shoal_local.runtimes.catalog import Image
from shoal_local.sagemaker import names
from shoal_local.sagemaker.container.launch import Host, Pod
from shoal_local.sagemaker.jobs.base import containers, storage
from shoal_local.sagemaker.jobs.base.ending import ended_by
from shoal_local.sagemaker.jobs.base.job import Job, JobFailedError, failure_reason
from shoal_local.sagemaker.jobs.base.logs import LogStreams
from shoal_local.sagemaker.jobs.base.paths import JobPaths
from shoal_local.sagemaker.jobs.base.runtime_build import ensure_built
from shoal_local.sagemaker.jobs.base.storage import DataError, FolderSync
from shoal_local.sagemaker.jobs.base.wait import Ending, EndReason, supervise
from shoal_local.sagemaker.shapes import Document, fitting

_HOST = "algo-1"
_EXIT_MESSAGE = "output/message"
"""File below /opt/ml in which a container leaves its ExitMessage (dg
build-your-own-processing-container).
"""


class ProcessingRun:
    """Runs in a thread of its own; `run()` returns when the job has ended, whichever way."""

    def __init__(self, job: Job, image: Image, machine: containers.Machine) -> None:
        self._job, self._image, self._machine = job, image, machine
        self._request = job.document()
        self._paths = JobPaths.of(job.core.context.state_dir, "processing", job.name)

    def run(self) -> None:
        try:
            status, reason = self._lifecycle()
        except Exception as error:  # noqa: BLE001 (a job must never stay InProgress)
            status, reason = ended_by(error, self._paths.folder)
        self._finish(status, reason)

    def _lifecycle(self) -> tuple[str, str]:
        context = self._job.core.context
        self._job.check_capacity()
        self._credentials = context.role_credentials(
            self._request["RoleArn"], f"SageMaker-{self._job.name}"[:64]
        )
        context.on_behalf("processing-job", self._job.name, self._request, self._credentials)
        self._s3 = context.clients("s3", self._credentials)
        self._paths.make([_HOST])
        self._log = LogStreams(
            context.clients("logs", self._credentials),
            self._job.kind.log_group,
            self._job.name,
            self._paths.log,
        )
        try:
            self._prepare()
            ending = self._process()
        finally:
            self._log.close()
        if ending.reason is EndReason.EXITED and ending.exit_code != 0:
            raise JobFailedError(
                f"AlgorithmError: {self._evidence()}, exit code: {ending.exit_code}"
            )
        if ending.reason is EndReason.EXITED:
            self._upload()
            return "Completed", ""
        return (
            "Stopped",
            (
                ""
                if ending.reason is EndReason.STOPPED
                else "ClientError: The job ran longer than MaxRuntimeInSeconds and was stopped."
            ),
        )

    def _prepare(self) -> None:
        """Build the runtime where it is missing; fetch the inputs; write the configuration."""
        uri = self._request["AppSpecification"]["ImageUri"]
        if notice := containers.image_notice(uri, self._image):
            self._log.write("emulator", notice)
        stopped = self._job.orders.stop.is_set
        ensure_built(
            self._image.runtime,
            self._job.core.registry,
            lambda line: self._log.write("emulator", line),
            stopped,
        )
        for each in self._request.get("ProcessingInputs", []):
            self._job.check_not_stopped()
            self._fetch(each)
        self._configure()

    def _fetch(self, each: Document) -> None:
        source = each["S3Input"]
        target = self._paths.host(_HOST).path_of(source["LocalPath"])
        try:
            count = storage.fetch_prefix(self._s3, source["S3Uri"], target)
        except DataError as error:
            raise JobFailedError(f"ClientError: Data download failed:{error}") from error
        if not count:
            message = storage.no_objects_message(
                source["S3Uri"], self._job.core.context.region, self._request["RoleArn"]
            )
            raise JobFailedError(f"ClientError: Data download failed:{message}")

    def _configure(self) -> None:
        """Create the folders of outputs and write the configuration files (dg
        build-your-own-processing-container).
        """
        host = self._paths.host(_HOST)
        for each in self._outputs():
            host.path_of(each["S3Output"]["LocalPath"]).mkdir(parents=True, exist_ok=True)
        config = host.ml / "config"
        config.mkdir(parents=True)
        (host.ml / "output").mkdir(exist_ok=True)
        config_members = {
            key: value
            for key, value in self._request.items()
            if key.startswith("Processing") or key in _IN_CONFIG
        }
        (config / "processingjobconfig.json").write_text(json.dumps(config_members))
        (config / "resourceconfig.json").write_text(
            json.dumps({"current_host": _HOST, "hosts": [_HOST]})
        )
        containers.write_nvidia_smi(host, self._accelerators())

    def _accelerators(self) -> int:
        return self._machine.accelerators(
            self._request["ProcessingResources"]["ClusterConfig"]["InstanceType"], 1
        )

    def _outputs(self) -> list[Document]:
        return list(self._request.get("ProcessingOutputConfig", {}).get("Outputs", []))

    def _process(self) -> Ending:
        context = self._job.core.context
        self._job.check_not_stopped()
        self._job.change(lambda document: document.update(ProcessingStartTime=names.now()))
        syncs: list[FolderSync] = []
        try:
            syncs = [
                self._sync(each)
                for each in self._outputs()
                if each["S3Output"]["S3UploadMode"] == "Continuous"
            ]
            pod = Pod(
                self._paths.folder,
                [self._host()],
                self._job.core.registry,
                containers.visible(self._image),
                containers.endpoint_port(context),
                self._log.write,
            )
            limit_s = self._request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", 86_400)
            return supervise(pod, self._job.orders, limit_s, self._job.core.settings.stop_grace_s)
        finally:
            for sync in syncs:
                sync.close()

    def _sync(self, each: Document) -> FolderSync:
        return FolderSync(self._s3, self._local(each), each["S3Output"]["S3Uri"])

    def _local(self, output: Document) -> Path:
        return self._paths.host(_HOST).path_of(output["S3Output"]["LocalPath"])

    def _host(self) -> Host:
        paths, application = self._paths.host(_HOST), self._request["AppSpecification"]
        variables = {
            "PROCESSING_JOB_NAME": self._job.name,
            "PROCESSING_JOB_ARN": self._request["ProcessingJobArn"],
            **containers.threads(self._machine, 1),
            **self._request.get("Environment", {}),
        }
        environment = containers.environment(
            self._job.core.context, self._image, paths, self._credentials, variables
        )
        command = [*application["ContainerEntrypoint"], *application.get("ContainerArguments", [])]
        return Host(_HOST, paths.folder, command, environment)

    def _evidence(self) -> str:
        lines = [line for line in self._log.tail(200) if line.startswith(f"{_HOST} ")]
        return "; ".join(line.partition(" ")[2] for line in lines[-5:]) or (
            "the container wrote nothing"
        )

    def _upload(self) -> None:
        key = self._request.get("ProcessingOutputConfig", {}).get("KmsKeyId", "")
        for each in self._outputs():
            if each["S3Output"]["S3UploadMode"] == "Continuous":
                continue
            if storage.put_folder(self._s3, self._local(each), each["S3Output"]["S3Uri"], key) == 0:
                place = each["S3Output"]["LocalPath"]
                raise JobFailedError(
                    f"ClientError: Data upload failed: nothing was found at {place} for the output"
                    f" {each['OutputName']}"
                )

    def _finish(self, status: str, reason: str) -> None:
        message_file = self._paths.host(_HOST).ml / _EXIT_MESSAGE

        def edit(document: Document) -> None:
            document.update(ProcessingJobStatus=status, ProcessingEndTime=names.now())
            if reason:
                document["FailureReason"] = failure_reason(reason)
            if message_file.is_file() and not message_file.is_symlink():
                message = message_file.read_text(errors="replace")
                document["ExitMessage"] = fitting(
                    "DescribeProcessingJobResponse", "ExitMessage", message
                )

        self._job.change(edit)


_IN_CONFIG = {"AppSpecification", "Environment", "StoppingCondition", "NetworkConfig", "RoleArn"}
