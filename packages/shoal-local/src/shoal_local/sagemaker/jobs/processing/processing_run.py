"""The life of one processing job: inputs from S3, the container's command, outputs to S3.

Completed means that the command exited with 0 and every output was really uploaded. An output
without files is a failure.
"""

from __future__ import annotations

import json
from pathlib import Path

from shoal_local.runtimes.catalog import Image
from shoal_local.sagemaker import names
from shoal_local.sagemaker.container.launch import Host
from shoal_local.sagemaker.jobs.base import containers, storage
from shoal_local.sagemaker.jobs.base.job import Job, JobFailedError
from shoal_local.sagemaker.jobs.base.jobs import JobRun
from shoal_local.sagemaker.jobs.base.logs import LogStreams
from shoal_local.sagemaker.jobs.base.runtime_build import ensure_built
from shoal_local.sagemaker.jobs.base.wait import Ending, EndReason, supervise
from shoal_local.sagemaker.shapes import Document, fitting

_HOST = "algo-1"
_IN_CONFIG = {"AppSpecification", "Environment", "StoppingCondition", "NetworkConfig", "RoleArn"}


class ProcessingRun(JobRun):
    """Runs the command of one job."""

    def __init__(self, job: Job, image: Image) -> None:
        super().__init__(job, "processing")
        self._image = image
        self._machine = containers.Machine.here(job.core.settings.accelerators)
        self._host = self._paths.host(_HOST)
        output_config = self._request.get("ProcessingOutputConfig", {})
        self._outputs: list[Document] = output_config.get("Outputs", [])
        self._key = output_config.get("KmsKeyId", "")

    def _lifecycle(self) -> tuple[str, str]:
        context = self._job.core.context
        self._job.check_capacity()
        self._credentials = context.role_credentials(
            self._request["RoleArn"], f"SageMaker-{self._job.name}"[:64]
        )
        context.on_behalf("processing-job", self._job.name, self._request, self._credentials)
        self._s3 = context.clients("s3", self._credentials)
        self._paths.make([_HOST])
        logs = context.clients("logs", self._credentials)
        self._log = LogStreams(logs, self._job.kind.log_group, self._job.name, self._paths.log)
        try:
            self._prepare()
            ending = self._process()
        finally:
            self._log.close()
        if ending.reason is EndReason.STOPPED:
            return "Stopped", ""
        if ending.reason is EndReason.TIMED_OUT:
            reason = "The job ran longer than MaxRuntimeInSeconds and was stopped."
            return "Stopped", f"ClientError: {reason}"
        if ending.exit_code != 0:
            reason = f"{self._log.evidence(_HOST)}, exit code: {ending.exit_code}"
            raise JobFailedError(f"AlgorithmError: {reason}")
        self._upload()
        return "Completed", ""

    def _prepare(self) -> None:
        """Build the runtime where it is missing; fetch the inputs; write the configuration."""
        uri = self._request["AppSpecification"]["ImageUri"]
        if notice := containers.image_notice(uri, self._image):
            self._log.notice(notice)
        stopped = self._job.orders.stop.is_set
        ensure_built(self._image.runtime, self._job.core.registry, self._log.notice, stopped)
        for each in self._request.get("ProcessingInputs", []):
            self._job.check_not_stopped()
            source = each["S3Input"]
            target = self._host.path_of(source["LocalPath"])
            storage.fetch_input(
                self._s3,
                source["S3Uri"],
                target,
                self._job.core.context.region,
                self._request["RoleArn"],
            )
        self._configure()

    def _configure(self) -> None:
        """Create the folders of outputs and write the configuration files (dg
        build-your-own-processing-container).
        """
        for each in self._outputs:
            self._local(each).mkdir(parents=True, exist_ok=True)
        config = self._host.ml / "config"
        config.mkdir(parents=True)
        (self._host.ml / "output").mkdir(exist_ok=True)
        config_members = {
            key: value
            for key, value in self._request.items()
            if key.startswith("Processing") or key in _IN_CONFIG
        }
        (config / "processingjobconfig.json").write_text(json.dumps(config_members))
        hosts = {"current_host": _HOST, "hosts": [_HOST]}
        (config / "resourceconfig.json").write_text(json.dumps(hosts))
        cluster = self._request["ProcessingResources"]["ClusterConfig"]
        accelerators = self._machine.accelerators(cluster["InstanceType"], 1)
        containers.write_nvidia_smi(self._host, accelerators)

    def _process(self) -> Ending:
        core = self._job.core
        self._job.check_not_stopped()
        self._job.change(lambda document: document.update(ProcessingStartTime=names.now()))
        pod = containers.start(
            core, self._image, self._paths.folder, [self._container()], self._log.write
        )
        limit_s = self._request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", 86_400)
        return supervise(pod, self._job.orders, limit_s, core.settings.stop_grace_s)

    def _local(self, output: Document) -> Path:
        return self._host.path_of(output["S3Output"]["LocalPath"])

    def _container(self) -> Host:
        application = self._request["AppSpecification"]
        variables = {
            "PROCESSING_JOB_NAME": self._job.name,
            "PROCESSING_JOB_ARN": self._request["ProcessingJobArn"],
            **containers.threads(self._machine, 1),
            **self._request.get("Environment", {}),
        }
        environment = containers.environment(
            self._job.core.context, self._image, self._host, self._credentials, variables
        )
        command = [*application["ContainerEntrypoint"], *application.get("ContainerArguments", [])]
        return Host(_HOST, self._host.folder, command, environment)

    def _upload(self) -> None:
        for each in self._outputs:
            place = each["S3Output"]
            if not storage.put_folder(self._s3, self._local(each), place["S3Uri"], self._key):
                raise JobFailedError(
                    f"ClientError: Data upload failed: nothing was found at {place['LocalPath']}"
                    f" for the output {each['OutputName']}"
                )

    def _end(self, document: Document, status: str, reason: str) -> None:
        """Add what the container says of its end (dg build-your-own-processing-container)."""
        super()._end(document, status, reason)
        file = self._host.ml / "output" / "message"
        if file.is_file() and not file.is_symlink():
            message = file.read_text(errors="replace")
            document["ExitMessage"] = fitting(
                "DescribeProcessingJobResponse", "ExitMessage", message
            )
