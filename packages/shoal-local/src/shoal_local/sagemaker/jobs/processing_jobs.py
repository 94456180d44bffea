"""Processing jobs. Completed means that the command exited with 0 and every output was really
uploaded to S3; an output without files is a failure.
"""

import json
from pathlib import Path

from shoal_local.runtimes.catalog import Image
from shoal_local.sagemaker import names
from shoal_local.sagemaker.container.launch import Host, isolation_refused
from shoal_local.sagemaker.errors import not_emulated
from shoal_local.sagemaker.jobs.base import containers, storage
from shoal_local.sagemaker.jobs.base.containers import image_for
from shoal_local.sagemaker.jobs.base.files import HostPaths
from shoal_local.sagemaker.jobs.base.jobs import (
    PROCESSING,
    Ending,
    EndReason,
    Job,
    JobFailedError,
    JobRun,
    Jobs,
    JobStoppedError,
    supervise,
)
from shoal_local.sagemaker.jobs.training import capacity
from shoal_local.sagemaker.resources import assume, check_keys, check_network
from shoal_local.sagemaker.shapes import Document

_HOST = "algo-1"
_IN_CONFIG = {"AppSpecification", "Environment", "StoppingCondition", "NetworkConfig", "RoleArn"}


class ProcessingJobs(Jobs):
    """The processing jobs of the account."""

    kind = PROCESSING

    def create(self, request: Document) -> Document:
        if reason := isolation_refused():
            raise not_emulated(
                "processing jobs on this machine: they need files at /opt/ml/processing, and"
                f" namespaces are refused ({reason})"
            )
        # raises where type or number is not said
        capacity.check_quotas(request, self._core.context.quota, self.holding())
        check_processing(request)
        uri, core = request["AppSpecification"]["ImageUri"], self._core
        image = image_for(core, uri, "processing")
        assume(core, request["RoleArn"], request["ProcessingJobName"])
        check_network(core, request.get("NetworkConfig", {}).get("VpcConfig"))
        volume_key = request["ProcessingResources"]["ClusterConfig"].get("VolumeKmsKeyId")
        check_keys(core, request.get("ProcessingOutputConfig", {}).get("KmsKeyId"), volume_key)
        job = self._keep_job(request)
        return self._start(ProcessingRun(job, image), job)


def check_processing(request: Document) -> None:
    """Raise AwsError for what is wrong or not emulated, whatever image it runs on what machine."""
    inputs = (each["S3Input"] for each in request.get("ProcessingInputs", []))
    outputs = request.get("ProcessingOutputConfig", {}).get("Outputs", [])
    for place in (*inputs, *(each["S3Output"] for each in outputs)):
        HostPaths(Path()).path_of(place["LocalPath"])
    if "ContainerEntrypoint" not in request["AppSpecification"]:
        raise not_emulated(
            "a processing container without ContainerEntrypoint (these images have no entry point"
            " for processing)"
        )


class ProcessingRun(JobRun):
    """Runs the command of one job."""

    def __init__(self, job: Job, image: Image) -> None:
        super().__init__(job, "processing")
        self._image = image
        self._host = self._paths.host(_HOST)
        output_config = self._request.get("ProcessingOutputConfig", {})
        self._outputs: list[Document] = output_config.get("Outputs", [])
        self._key = output_config.get("KmsKeyId", "")

    def _lifecycle(self) -> None:
        self._job.check_capacity()
        # no page names a wait
        if (taken := capacity.take(self._job, self._request)) is None:
            raise JobFailedError(capacity.NO_CAPACITY)
        self._kind = taken.instance_type
        kind, name = self._job.kind, self._job.name
        self._place = containers.Workplace(
            self._job.core,
            self._image,
            self._paths,
            self._request["RoleArn"],
            (kind.store, name, self._request),
            (kind.log_group, name),
        )
        self._log, self._s3 = self._place.log, self._place.s3
        self._paths.renew([_HOST])
        try:
            self._prepare()
            ending = self._process()
        finally:
            self._log.close()
        if ending.reason is EndReason.STOPPED:
            raise JobStoppedError
        if ending.reason is EndReason.TIMED_OUT:
            reason = "The job ran longer than MaxRuntimeInSeconds and was stopped."
            raise JobStoppedError(f"ClientError: {reason}")
        if ending.exit_code != 0:
            reason = f"{self._log.evidence(_HOST)}, exit code: {ending.exit_code}"
            raise JobFailedError(f"AlgorithmError: {reason}")
        self._upload()

    def _prepare(self) -> None:
        """Build the runtime where it is missing; fetch the inputs; write the configuration."""
        uri, stopped = self._request["AppSpecification"]["ImageUri"], self._job.stop.is_set
        self._place.build_runtime(uri, stopped)
        for each in self._request.get("ProcessingInputs", []):
            self._job.check_not_stopped()
            source = each["S3Input"]
            target = self._host.path_of(source["LocalPath"])
            storage.fetch_input(self._s3, source["S3Uri"], target, self._request["RoleArn"])
        self._configure()

    def _configure(self) -> None:
        """Create folders and files of configuration (dg build-your-own-processing-container)."""
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
        accelerators = self._place.machine.accelerators(self._kind, 1)
        containers.write_nvidia_smi(self._host, accelerators)

    def _process(self) -> Ending:
        self._job.check_not_stopped()
        self._job.change(lambda document: document.update(ProcessingStartTime=names.now()))
        pod = self._place.start([self._container()], self._log.write)
        limit_s = self._request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", 86_400)
        return supervise(pod, self._job, limit_s)

    def _local(self, output: Document) -> Path:
        return self._host.path_of(output["S3Output"]["LocalPath"])

    def _container(self) -> Host:
        application = self._request["AppSpecification"]
        variables = {
            "PROCESSING_JOB_NAME": self._job.name,
            "PROCESSING_JOB_ARN": self._request["ProcessingJobArn"],
            **containers.threads(self._place.machine, 1),
            **self._request.get("Environment", {}),
        }
        environment = self._place.environment(self._host, variables)
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
