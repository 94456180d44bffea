"""CreateEndpointConfig, DescribeEndpointConfig, ListEndpointConfigs, DeleteEndpointConfig.

DataCaptureConfig is checked, kept and described, but nothing is captured: AWS does not document how
the files are named, and nothing of ours reads them.
"""

from __future__ import annotations

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid, not_emulated
from shoal_local.sagemaker.hosting import models
from shoal_local.sagemaker.jobs.base import storage
from shoal_local.sagemaker.listing import Listing
from shoal_local.sagemaker.references import check_keys
from shoal_local.sagemaker.shapes import Document

KIND = "endpoint-config"
_LISTING = Listing("EndpointConfigs", "EndpointConfigSummary", "EndpointConfigName")
_REFUSED = (
    "AsyncInferenceConfig",
    "ExplainerConfig",
    "ShadowProductionVariants",
    "MetricsConfig",
    "CrossRegionTrafficConfig",
    "EnableNetworkIsolation",
)
_VARIANT_REFUSED = (
    "CoreDumpConfig",
    "ManagedInstanceScaling",
    "CapacityReservationConfig",
    "InstancePools",
)


_MEMORY_STEP_MB = 1024


class EndpointConfigs:
    """The endpoint configurations of the account."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def create(self, request: Document) -> Document:
        for field in _REFUSED:
            if request.get(field):
                raise not_emulated(f"EndpointConfig.{field}")
        for variant in request["ProductionVariants"]:
            self._check(variant)
        check_combination(request)
        check_keys(self._core, request.get("KmsKeyId"))
        document = self._document(request)
        self._core.store.create(KIND, request["EndpointConfigName"], document, _name_in_use)
        return {"EndpointConfigArn": document["EndpointConfigArn"]}

    def _check(self, variant: Document) -> None:
        for field in _VARIANT_REFUSED:
            if variant.get(field):
                raise not_emulated(f"ProductionVariant.{field}")
        if "ModelName" not in variant:
            raise not_emulated("a production variant without ModelName (inference components)")
        model = self._core.store.get(models.KIND, variant["ModelName"])
        if model is None:
            raise invalid(
                f'Could not find model "{self._core.arn("model", variant["ModelName"])}".'
            )
        if variant.get("ServerlessConfig"):
            check_serverless(variant, model)
        elif "InstanceType" not in variant:
            raise invalid(
                f"Variant {variant['VariantName']} needs an InstanceType, or a ServerlessConfig"
            )

    def _document(self, request: Document) -> Document:
        name = request["EndpointConfigName"]
        variants = [_with_defaults(each) for each in request["ProductionVariants"]]
        return {key: value for key, value in request.items() if key != "Tags"} | {
            "_name": name,
            "_tags": request.get("Tags", []),
            "EndpointConfigArn": self._core.arn("endpoint-config", name),
            "ProductionVariants": variants,
            "CreationTime": names.now(),
        }

    def describe(self, request: Document) -> Document:
        name = request["EndpointConfigName"]
        document = self._core.store.get(KIND, name)
        if document is None:
            raise invalid(
                "Could not find endpoint configuration"
                f' "{self._core.arn("endpoint-config", name)}".'
            )
        return document

    def list(self, request: Document) -> Document:
        return self._core.store.listed(
            KIND, lambda all_of_them: _LISTING.page(all_of_them, request, in_order=True)
        )

    def delete(self, request: Document) -> Document:
        self.describe(request)
        self._core.store.delete(KIND, request["EndpointConfigName"])
        return {}


def _with_defaults(variant: Document) -> Document:
    """Return the variant with AWS's defaults."""
    count = {} if variant.get("ServerlessConfig") else {"InitialInstanceCount": 1}
    return {**count, "InitialVariantWeight": 1.0} | variant


def check_serverless(variant: Document, model: Document) -> None:
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
    if config.get("ProvisionedConcurrency", 0) > config["MaxConcurrency"]:
        raise invalid(
            f"ProvisionedConcurrency of variant {name} must be at most its MaxConcurrency"
            f" ({config['MaxConcurrency']})"
        )
    if model.get("VpcConfig"):
        raise invalid(
            f"Serverless endpoints do not support VpcConfig, which model {variant['ModelName']} has"
        )


def check_combination(request: Document) -> None:
    """Raise ValidationException for variants that do not go together, or a place for captured data
    that is no S3 URI.
    """
    variants = request["ProductionVariants"]
    if "DataCaptureConfig" in request:
        try:
            storage.split_uri(request["DataCaptureConfig"]["DestinationS3Uri"])
        except storage.DataError as error:
            raise invalid(f"DataCaptureConfig.DestinationS3Uri: {error}") from error
    if len({each["VariantName"] for each in variants}) < len(variants):
        raise invalid("The names of production variants must differ")
    if not any(each.get("InitialVariantWeight", 1.0) for each in variants):
        raise invalid("At least one production variant must have a weight above 0")
    if any(each.get("ServerlessConfig") for each in variants):
        for feature, is_used in (
            ("several production variants", len(variants) > 1),
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


def _name_in_use(existing: Document) -> AwsError:
    return invalid(
        f'Cannot create already existing endpoint configuration "{existing["EndpointConfigArn"]}".'
    )
