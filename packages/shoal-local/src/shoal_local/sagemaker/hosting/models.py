"""CreateModel, DescribeModel, ListModels, DeleteModel."""

from __future__ import annotations

from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import NO_NETWORK_ISOLATION, invalid, not_emulated
from shoal_local.sagemaker.hosting.artifacts import resolve_container
from shoal_local.sagemaker.jobs.base.containers import image_for
from shoal_local.sagemaker.references import assume, check_network
from shoal_local.sagemaker.resources import KINDS, Resources
from shoal_local.sagemaker.shapes import Document


class Models(Resources):
    """The models of the account: container image, model archive, environment and role."""

    def __init__(self, core: Core) -> None:
        super().__init__(core, KINDS["model"])

    def create(self, request: Document) -> Document:
        containers = request.get("Containers", [])
        if len(containers) > 1 or "InferenceExecutionConfig" in request:
            raise not_emulated("models of several containers (inference pipelines)")
        if request.get("EnableNetworkIsolation"):
            raise not_emulated(NO_NETWORK_ISOLATION)
        container = request.get("PrimaryContainer") or next(iter(containers), None)
        if container is None:
            raise invalid("Either PrimaryContainer or Containers is required")
        if "ExecutionRoleArn" not in request:
            raise invalid("ExecutionRoleArn is required")
        assume(self._core, request["ExecutionRoleArn"], f"SageMaker-{request['ModelName']}")
        check_network(self._core, request.get("VpcConfig"))
        image = resolve_container(self._core, container)["Image"]
        image_for(image, "inference", self._core.settings.images, self._core.context.region)
        model = self.keep(request, _image=image, EnableNetworkIsolation=False)
        self._tell(model)
        return {"ModelArn": model["ModelArn"]}

    def delete(self, request: Document) -> Document:
        model = self.describe(request)
        super().delete(request)
        self._tell(model)
        return {}

    def _tell(self, model: Document) -> None:
        self._emit(model, {key: model[key] for key in ("ModelName", "ModelArn")})
