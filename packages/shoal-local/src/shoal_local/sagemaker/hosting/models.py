"""CreateModel, DescribeModel, ListModels, DeleteModel."""

from __future__ import annotations

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid, not_emulated
from shoal_local.sagemaker.hosting.artifacts import resolve_container
from shoal_local.sagemaker.jobs.base.containers import image_for
from shoal_local.sagemaker.listing import Listing
from shoal_local.sagemaker.references import assume, check_network
from shoal_local.sagemaker.shapes import Document

KIND = "model"
_LISTING = Listing("Models", "ModelSummary", "ModelName")


class Models:
    """The models of the account: container image, model archive, environment and role."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def create(self, request: Document) -> Document:
        if len(request.get("Containers", [])) > 1 or "InferenceExecutionConfig" in request:
            raise not_emulated("models of several containers (inference pipelines)")
        if request.get("EnableNetworkIsolation"):
            raise not_emulated(
                "EnableNetworkIsolation (a container always reaches the AWS endpoint, and nothing"
                " else)"
            )
        container = request.get("PrimaryContainer") or next(
            iter(request.get("Containers", [])), None
        )
        if container is None:
            raise invalid("Either PrimaryContainer or Containers is required")
        if "ExecutionRoleArn" not in request:
            raise invalid("ExecutionRoleArn is required")
        assume(self._core, request["ExecutionRoleArn"], f"SageMaker-{request['ModelName']}")
        check_network(self._core, request.get("VpcConfig"))
        image = resolve_container(self._core, container)["Image"]
        image_for(image, "inference", self._core.settings.images, self._core.context.region)
        name = request["ModelName"]
        document = {key: value for key, value in request.items() if key != "Tags"} | {
            "_name": name,
            "_tags": request.get("Tags", []),
            "_image": image,
            "ModelArn": self._core.arn("model", name),
            "EnableNetworkIsolation": False,
            "CreationTime": names.now(),
        }
        self._core.store.create(KIND, name, document, _name_in_use)
        self._core.emit(
            "SageMaker Model State Change",
            {"ModelName": name, "ModelArn": document["ModelArn"]},
            document["ModelArn"],
        )
        return {"ModelArn": document["ModelArn"]}

    def describe(self, request: Document) -> Document:
        name = request["ModelName"]
        document = self._core.store.get(KIND, name)
        if document is None:
            raise invalid(f'Could not find model "{self._core.arn("model", name)}".')
        return document

    def list(self, request: Document) -> Document:
        return self._core.store.listed(
            KIND, lambda all_of_them: _LISTING.page(all_of_them, request, in_order=True)
        )

    def delete(self, request: Document) -> Document:
        document = self.describe(request)
        self._core.store.delete(KIND, request["ModelName"])
        detail = {"ModelName": request["ModelName"], "ModelArn": document["ModelArn"]}
        self._core.emit("SageMaker Model State Change", detail, document["ModelArn"])
        return {}


def _name_in_use(existing: Document) -> AwsError:
    return invalid(f'Cannot create already existing model "{existing["ModelArn"]}".')
