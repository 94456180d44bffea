"""CreateProcessingJob, DescribeProcessingJob, ListProcessingJobs, StopProcessingJob.

What is not emulated is refused by name before anything starts.
"""

from __future__ import annotations

from pathlib import Path

from shoal_local.sagemaker.container.launch import isolation_refused
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import NO_NETWORK_ISOLATION, invalid, not_emulated, refuse_fields
from shoal_local.sagemaker.jobs.base.containers import image_for
from shoal_local.sagemaker.jobs.base.job import PROCESSING
from shoal_local.sagemaker.jobs.base.jobs import Jobs
from shoal_local.sagemaker.jobs.base.paths import HostPaths
from shoal_local.sagemaker.jobs.processing.processing_run import ProcessingRun
from shoal_local.sagemaker.references import assume, check_keys, check_network
from shoal_local.sagemaker.shapes import Document


class ProcessingJobs(Jobs):
    """The processing jobs of the account."""

    def __init__(self, core: Core) -> None:
        super().__init__(core, PROCESSING)

    def create(self, request: Document) -> Document:
        if reason := isolation_refused():
            raise not_emulated(
                "processing jobs on this machine: they need files at /opt/ml/processing, and"
                f" namespaces are refused ({reason})"
            )
        check_processing(request)
        uri, core = request["AppSpecification"]["ImageUri"], self._core
        image = image_for(uri, "processing", core.settings.images, core.context.region)
        self._check_references(request)
        job = self._keep_job(request)
        return self._start(ProcessingRun(job, image), job)

    def _check_references(self, request: Document) -> None:
        assume(self._core, request["RoleArn"], f"SageMaker-{request['ProcessingJobName']}")
        check_network(self._core, request.get("NetworkConfig", {}).get("VpcConfig"))
        volume_key = request["ProcessingResources"]["ClusterConfig"].get("VolumeKmsKeyId")
        output_key = request.get("ProcessingOutputConfig", {}).get("KmsKeyId")
        check_keys(self._core, output_key, volume_key)


def check_processing(request: Document) -> None:
    """Raise AwsError for what is wrong or not emulated, whatever image it runs on what machine."""
    refuse_fields("CreateProcessingJob", request)
    cluster = request["ProcessingResources"]["ClusterConfig"]
    for field in ("InstanceCount", "InstanceType"):
        if field not in cluster:
            raise invalid(f"ProcessingResources.ClusterConfig.{field} is required")
    if cluster["InstanceCount"] != 1:
        raise not_emulated("processing jobs on more than one instance")
    if request.get("NetworkConfig", {}).get("EnableNetworkIsolation"):
        raise not_emulated(NO_NETWORK_ISOLATION)
    for each in request.get("ProcessingInputs", []):
        what = f"processing input {each['InputName']}"
        _check_place(each, what, "S3Input")
        _check_input(each["S3Input"], what)
    for each in request.get("ProcessingOutputConfig", {}).get("Outputs", []):
        what = f"processing output {each['OutputName']}"
        _check_place(each, what, "S3Output")
        if each["S3Output"]["S3UploadMode"] != "EndOfJob":
            raise not_emulated(f"{what}: S3UploadMode other than EndOfJob")
    if "ContainerEntrypoint" not in request["AppSpecification"]:
        raise not_emulated(
            "a processing container without ContainerEntrypoint (these images have no entry point"
            " for processing)"
        )


def _check_place(each: Document, what: str, field: str) -> None:
    """Raise AwsError for an input or output that is not in S3, or has no folder below /opt/ml."""
    if field not in each:
        raise not_emulated(f"{what}: anything other than {field}")
    if "LocalPath" not in each[field]:
        raise invalid(f"LocalPath is required for {field} of {what}")
    HostPaths(Path()).path_of(each[field]["LocalPath"])


def _check_input(source: Document, what: str) -> None:
    if source["S3DataType"] != "S3Prefix" or source.get("S3InputMode", "File") != "File":
        raise not_emulated(f"{what}: only S3Prefix in File mode")
    if source.get("S3CompressionType", "None") != "None":
        raise not_emulated(f"{what}: S3CompressionType other than None")
