"""CreateEndpointConfig, DescribeEndpointConfig, ListEndpointConfigs, DeleteEndpointConfig.

DataCaptureConfig is checked, kept and described, but nothing is captured: AWS does not document how
the files are named, and nothing of ours reads them.
"""

from __future__ import annotations

from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid, not_emulated, refuse_fields
from shoal_local.sagemaker.hosting.models import Models
from shoal_local.sagemaker.jobs.base import storage
from shoal_local.sagemaker.references import check_keys
from shoal_local.sagemaker.resources import KINDS, Resources
from shoal_local.sagemaker.shapes import Document

_MEMORY_STEP_MB = 1024


class EndpointConfigs(Resources):
    """The endpoint configurations of the account."""

    def __init__(self, core: Core) -> None:
        super().__init__(core, KINDS["endpoint-config"])

    def create(self, request: Document) -> Document:
        refuse_fields("CreateEndpointConfig", request)
        if len(request["ProductionVariants"]) > 1:
            raise not_emulated("endpoints with several production variants")
        (variant,) = request["ProductionVariants"]
        if "ModelName" not in variant:
            raise not_emulated("a production variant without ModelName (inference components)")
        model = Models(self._core).find(variant["ModelName"])
        if variant.get("ServerlessConfig"):
            _check_serverless(variant, model, request)
        elif "InstanceType" not in variant:
            raise invalid(
                f"Variant {variant['VariantName']} needs an InstanceType, or a ServerlessConfig"
            )
        if "DataCaptureConfig" in request:
            try:
                storage.split_uri(request["DataCaptureConfig"]["DestinationS3Uri"])
            except storage.DataError as error:
                raise invalid(f"DataCaptureConfig.DestinationS3Uri: {error}") from error
        check_keys(self._core, request.get("KmsKeyId"))
        count = {} if variant.get("ServerlessConfig") else {"InitialInstanceCount": 1}
        with_defaults = {**count, "InitialVariantWeight": 1.0} | variant
        config = self.keep(request, ProductionVariants=[with_defaults])
        return {"EndpointConfigArn": config["EndpointConfigArn"]}


def _check_serverless(variant: Document, model: Document, request: Document) -> None:
    """Raise ValidationException for what a serverless variant cannot be (developer guide, "Deploy
    models with Serverless Inference").
    """
    config, name = variant["ServerlessConfig"], variant["VariantName"]
    for field in ("InstanceType", "InitialInstanceCount", "AcceleratorType", "VolumeSizeInGB"):
        if field in variant:
            raise invalid(
                f"Variant {name} has a ServerlessConfig and {field}; it can have one of them only"
            )
    if config["MemorySizeInMB"] % _MEMORY_STEP_MB:
        raise invalid(
            f"MemorySizeInMB of variant {name} must be in steps of {_MEMORY_STEP_MB}: 1024, 2048"
            " ... 6144"
        )
    for feature, is_used in (
        (f"VpcConfig, which model {variant['ModelName']} has", "VpcConfig" in model),
        ("data capture", "DataCaptureConfig" in request),
    ):
        if is_used:
            raise invalid(f"Serverless endpoints do not support {feature}")


def capture_summary(config: Document) -> Document:
    """Return the DataCaptureConfigSummary: Stopped, because nothing is captured here."""
    capture = config["DataCaptureConfig"]
    return {
        "EnableCapture": capture.get("EnableCapture", True),
        "CaptureStatus": "Stopped",
        "CurrentSamplingPercentage": capture["InitialSamplingPercentage"],
        "DestinationS3Uri": capture["DestinationS3Uri"],
        "KmsKeyId": capture.get("KmsKeyId", ""),
    }
