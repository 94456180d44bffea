"""CreateEndpointConfig, DescribeEndpointConfig, ListEndpointConfigs, DeleteEndpointConfig."""

from __future__ import annotations

from emulator.errors import AwsError
from emulator.sagemaker import names
from emulator.sagemaker.core import Core
from emulator.sagemaker.hosting import models
from emulator.sagemaker.listing import Listing
from emulator.sagemaker.references import check_keys
from emulator.sagemaker.refusals import invalid, not_emulated
from emulator.sagemaker.shapes import Document

KIND = "endpoint-config"
_LISTING = Listing("EndpointConfigs", "EndpointConfigSummary", "EndpointConfigName")
_REFUSED = (
    "DataCaptureConfig",
    "AsyncInferenceConfig",
    "ExplainerConfig",
    "ShadowProductionVariants",
    "MetricsConfig",
    "CrossRegionTrafficConfig",
    "EnableNetworkIsolation",
)
_VARIANT_REFUSED = ("ServerlessConfig", "CoreDumpConfig", "ManagedInstanceScaling", "CapacityReservationConfig", "InstancePools")


class EndpointConfigs:
    """The endpoint configurations of the account; the emulator serves one variant."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def create(self, request: Document) -> Document:
        for field in _REFUSED:
            if request.get(field):
                raise not_emulated(f"EndpointConfig.{field}")
        if len(request["ProductionVariants"]) != 1:
            raise not_emulated("more than one production variant")
        variant = request["ProductionVariants"][0]
        for field in _VARIANT_REFUSED:
            if variant.get(field):
                raise not_emulated(f"ProductionVariant.{field}")
        if "ModelName" not in variant:
            raise not_emulated("a production variant without ModelName (inference components)")
        if self._core.store.get(models.KIND, variant["ModelName"]) is None:
            raise invalid(f'Could not find model "{self._core.arn("model", variant["ModelName"])}".')
        check_keys(self._core, request.get("KmsKeyId"))
        document = self._document(request)
        self._core.store.create(KIND, request["EndpointConfigName"], document, _taken)
        return {"EndpointConfigArn": document["EndpointConfigArn"]}

    def _document(self, request: Document) -> Document:
        name = request["EndpointConfigName"]
        variant = {"InitialInstanceCount": 1, "InitialVariantWeight": 1.0} | request["ProductionVariants"][0]
        return {key: value for key, value in request.items() if key != "Tags"} | {
            "_name": name,
            "_tags": request.get("Tags", []),
            "EndpointConfigArn": self._core.arn("endpoint-config", name),
            "ProductionVariants": [variant],
            "CreationTime": names.now(),
        }

    def describe(self, request: Document) -> Document:
        name = request["EndpointConfigName"]
        document = self._core.store.get(KIND, name)
        if document is None:
            raise invalid(f'Could not find endpoint configuration "{self._core.arn("endpoint-config", name)}".')
        return document

    def list(self, request: Document) -> Document:
        return _LISTING.page(self._core.store.all(KIND), request)

    def delete(self, request: Document) -> Document:
        self.describe(request)
        self._core.store.delete(KIND, request["EndpointConfigName"])
        return {}


def _taken(existing: Document) -> AwsError:
    return invalid(f'Cannot create already existing endpoint configuration "{existing["EndpointConfigArn"]}".')
