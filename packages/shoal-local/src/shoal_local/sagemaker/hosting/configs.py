"""CreateEndpointConfig, DescribeEndpointConfig, ListEndpointConfigs, DeleteEndpointConfig.

DataCaptureConfig is kept and described, but nothing is captured: AWS does not document how the
files are named, and nothing of ours reads them.
"""

from __future__ import annotations

from shoal_local.sagemaker.errors import check_fields, invalid, not_emulated
from shoal_local.sagemaker.hosting.models import Models
from shoal_local.sagemaker.references import check_keys
from shoal_local.sagemaker.resources import KINDS, Resources
from shoal_local.sagemaker.shapes import Document


class EndpointConfigs(Resources):
    """The endpoint configurations of the account."""

    kind = KINDS["endpoint-config"]

    def create(self, request: Document) -> Document:
        check_fields("CreateEndpointConfig", request)
        if len(request["ProductionVariants"]) > 1:
            raise not_emulated("endpoints with several production variants")
        (variant,) = request["ProductionVariants"]
        if "ModelName" not in variant:
            raise not_emulated("a production variant without ModelName (inference components)")
        model = Models(self._core).find(variant["ModelName"])
        is_serverless = bool(variant.get("ServerlessConfig"))
        if is_serverless and "ModelDataSource" in model.get("PrimaryContainer", {}):
            raise invalid("ModelDataSource cannot be used with serverless endpoints")
        if is_serverless is ("InstanceType" in variant):
            raise invalid(
                f"Variant {variant['VariantName']} needs an InstanceType, or a ServerlessConfig"
            )
        check_keys(self._core, request.get("KmsKeyId"))
        count = {} if is_serverless else {"InitialInstanceCount": 1}
        with_defaults = {**count, "InitialVariantWeight": 1.0} | variant
        config = self.keep(request, ProductionVariants=[with_defaults])
        return {"EndpointConfigArn": config["EndpointConfigArn"]}
