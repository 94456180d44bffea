"""Checks of a CreateProcessingJob request: what is not emulated is refused by name before anything
starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shoal_local.runtimes.catalog import Image
from shoal_local.sagemaker.container.launch import isolation_refused
from shoal_local.sagemaker.errors import invalid, not_emulated
from shoal_local.sagemaker.jobs.base.containers import image_for
from shoal_local.sagemaker.jobs.base.paths import HostPaths
from shoal_local.sagemaker.shapes import Document


def check_processing(request: Document, declared: Mapping[str, str], region: str) -> Image:
    """Return the image's entry; raise AwsError for what is wrong or not emulated.

    `declared`: runtimes of the user's own images; `region`: where the job is to run.
    """
    if reason := isolation_refused():
        raise not_emulated(
            "processing jobs on this machine: they need files at /opt/ml/processing, and"
            f" namespaces are refused ({reason})"
        )
    check_processing_fields(request)
    uri = request["AppSpecification"]["ImageUri"]
    return image_for(uri, "processing", declared, region)


def check_processing_fields(request: Document) -> None:
    """Raise AwsError for what is wrong or not emulated, whatever image it runs on what machine."""
    if request.get("ExperimentConfig"):
        raise not_emulated("ExperimentConfig")
    cluster = request["ProcessingResources"]["ClusterConfig"]
    for field in ("InstanceCount", "InstanceType"):
        if field not in cluster:
            raise invalid(f"ProcessingResources.ClusterConfig.{field} is required")
    if cluster["InstanceCount"] != 1:
        raise not_emulated("processing jobs on more than one instance")
    if request.get("NetworkConfig", {}).get("EnableNetworkIsolation"):
        raise not_emulated(
            "EnableNetworkIsolation (a container always reaches the AWS endpoint, and nothing else)"
        )
    for each in request.get("ProcessingInputs", []):
        _check_input(each)
    for each in request.get("ProcessingOutputConfig", {}).get("Outputs", []):
        _check_output(each)
    if "ContainerEntrypoint" not in request["AppSpecification"]:
        raise not_emulated(
            "a processing container without ContainerEntrypoint (these images have no entry point"
            " for processing)"
        )


def _check_input(each: Document) -> None:
    name, source = each["InputName"], each.get("S3Input")
    if source is None:
        raise not_emulated(f"processing input {name}: a source other than S3Input")
    if source["S3DataType"] != "S3Prefix" or source.get("S3InputMode", "File") != "File":
        raise not_emulated(f"processing input {name}: only S3Prefix in File mode")
    if source.get("S3CompressionType", "None") != "None":
        raise not_emulated(f"processing input {name}: S3CompressionType other than None")
    if "LocalPath" not in source:
        raise invalid(f"LocalPath is required for S3Input of processing input {name}")
    HostPaths(Path()).path_of(source["LocalPath"])


def _check_output(each: Document) -> None:
    name, target = each["OutputName"], each.get("S3Output")
    if target is None:
        raise not_emulated(f"processing output {name}: a target other than S3Output")
    if "LocalPath" not in target:
        raise invalid(f"LocalPath is required for S3Output of processing output {name}")
    HostPaths(Path()).path_of(target["LocalPath"])
