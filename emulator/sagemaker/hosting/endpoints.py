"""CreateEndpoint, UpdateEndpoint, DescribeEndpoint, ListEndpoints, DeleteEndpoint, and InvokeEndpoint.

InService means that the container's /ping answered 200; a document is gone only when its process is.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping

from emulator.errors import AwsError
from emulator.sagemaker import measurements, names
from emulator.sagemaker.container.launch import PodError
from emulator.sagemaker.core import Core, event_detail
from emulator.sagemaker.hosting import configs, models
from emulator.sagemaker.hosting.server import ModelServer, ServerFailedError
from emulator.sagemaker.jobs.storage import DataError
from emulator.sagemaker.listing import Listing
from emulator.sagemaker.refusals import invalid, not_emulated
from emulator.sagemaker.shapes import Document

KIND = "endpoint"
_LISTING = Listing("Endpoints", "EndpointSummary", "EndpointName", "EndpointStatus")
_IN_PROGRESS = {"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"}
_EVENT_STATUS = {
    "Creating": "CREATING",
    "Updating": "UPDATING",
    "InService": "IN_SERVICE",
    "Deleting": "DELETING",
    "Failed": "FAILED",
    "RollingBack": "ROLLING_BACK",
}
"""As in the guide's event examples; the API itself says InService."""


class Endpoints:
    """The endpoints of the account, each with at most one running server."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._servers: dict[str, ModelServer] = {}
        self._starting: dict[str, ModelServer] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def create(self, request: Document) -> Document:
        config = self._config(request["EndpointConfigName"])
        name, now = request["EndpointName"], names.now()
        document = {
            "_name": name,
            "_tags": request.get("Tags", []),
            "EndpointName": name,
            "EndpointArn": self._core.arn("endpoint", name),
            "EndpointConfigName": request["EndpointConfigName"],
            "EndpointStatus": "Creating",
            "CreationTime": now,
            "LastModifiedTime": now,
            **({"LastDeploymentConfig": request["DeploymentConfig"]} if request.get("DeploymentConfig") else {}),
        }
        self._core.store.create(KIND, name, document, _taken)
        self._tell(document)
        self._in_background(lambda: self._deploy(name, config))
        return {"EndpointArn": document["EndpointArn"]}

    def update(self, request: Document) -> Document:
        for field in ("DeploymentConfig", "RetainAllVariantProperties", "ExcludeRetainedVariantProperties", "RetainDeploymentConfig"):
            if request.get(field):
                raise not_emulated(f"UpdateEndpoint.{field}")
        document = self.describe(request)
        self._check_not_in_progress(document)
        config = self._config(request["EndpointConfigName"])
        self._change(request["EndpointName"], lambda each: each.update(EndpointStatus="Updating"))
        self._in_background(lambda: self._deploy(request["EndpointName"], config))
        return {"EndpointArn": document["EndpointArn"]}

    def _config(self, name: str) -> Document:
        config = self._core.store.get(configs.KIND, name)
        if config is None:
            raise invalid(f'Could not find endpoint configuration "{self._core.arn("endpoint-config", name)}".')
        return config

    def _deploy(self, name: str, config: Document) -> None:
        """Start a server for `config`; the one before it goes only when the new one serves (an update that fails rolls back)."""
        variant = config["ProductionVariants"][0]
        try:
            server = ModelServer(self._core, name, variant, self._model(variant["ModelName"]))
            with self._lock:
                self._starting[name] = server
            try:
                server.start()
            except BaseException:
                server.close()
                raise
        except (ServerFailedError, DataError, PodError, AwsError) as failed:
            self._deployment_failed(name, str(failed))
        except Exception as bug:  # noqa: BLE001 (an endpoint must never stay Creating; the reason names the bug)
            self._deployment_failed(name, f"InternalServerError: {bug!r}")
        else:
            with self._lock:
                previous, self._servers[name] = self._servers.get(name), server
            self._change(name, lambda document: _in_service(document, config))
            if previous:
                previous.close()
        finally:
            with self._lock:
                self._starting.pop(name, None)

    def _model(self, name: str) -> Document:
        model = self._core.store.get(models.KIND, name)
        if model is None:
            raise ServerFailedError(f'Could not find model "{self._core.arn("model", name)}".')
        return model

    def _deployment_failed(self, name: str, reason: str) -> None:
        with self._lock:
            serving = name in self._servers
        status = "InService" if serving else "Failed"
        self._change(name, lambda document: document.update(EndpointStatus=status, FailureReason=reason[:1024]))

    def describe(self, request: Document) -> Document:
        name = request["EndpointName"]
        document = self._core.store.get(KIND, name)
        if document is None:
            raise invalid(f'Could not find endpoint "{self._core.arn("endpoint", name)}".')
        return document

    def list(self, request: Document) -> Document:
        return _LISTING.page(self._core.store.all(KIND), request)

    def delete(self, request: Document) -> Document:
        name = request["EndpointName"]
        self._check_not_in_progress(self.describe(request))
        self._change(name, lambda document: document.update(EndpointStatus="Deleting"))
        self._in_background(lambda: self._remove(name))
        return {}

    def _check_not_in_progress(self, document: Document) -> None:
        if document["EndpointStatus"] in _IN_PROGRESS:
            raise invalid(f'Cannot update in-progress endpoint "{document["EndpointArn"]}".')

    def _remove(self, name: str) -> None:
        with self._lock:
            server = self._servers.pop(name, None)
        if server:
            server.close()
        self._core.store.delete(KIND, name)

    def _change(self, name: str, edit: Callable[[Document], None]) -> None:
        def stamped(document: Document) -> None:
            edit(document)
            document["LastModifiedTime"] = names.now()

        self._tell(self._core.store.change(KIND, name, stamped))

    def _tell(self, document: Document) -> None:
        detail = event_detail(document) | {"EndpointStatus": _EVENT_STATUS[document["EndpointStatus"]]}
        self._core.emit("SageMaker Endpoint State Change", detail, document["EndpointArn"])

    def _in_background(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="endpoint", daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def invoke(self, name: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
        """InvokeEndpoint: status, headers and body; AwsError ValidationError for an unknown endpoint."""
        document = self._core.store.get(KIND, name)
        with self._lock:
            server = self._servers.get(name)
        if document is None:
            raise AwsError("ValidationError", f"Endpoint {name} of account {self._core.context.account} not found.")
        if server is None:
            raise AwsError("ValidationError", f"Endpoint {name} is not in service (status {document['EndpointStatus']}).")
        variant = document["ProductionVariants"][0]["VariantName"]
        begun = time.monotonic()
        try:
            answer = server.invoke(body, headers)
        except (OSError, http.client.HTTPException) as silent:
            self._core.measure(measurements.of_invocation(name, variant, 500, time.monotonic() - begun))
            why = "ended" if server.ended() else f"did not answer: {silent or type(silent).__name__}"
            return self._model_error(name, variant, 0, f"Your model container {why}.")
        self._core.measure(measurements.of_invocation(name, variant, answer.status, time.monotonic() - begun))
        if answer.status >= http.client.BAD_REQUEST:
            return self._model_error(name, variant, answer.status, answer.body.decode(errors="replace"))
        return 200, {"Content-Type": answer.content_type, "x-Amzn-Invoked-Production-Variant": variant}, answer.body

    def _model_error(self, name: str, variant: str, status: int, said: str) -> tuple[int, dict[str, str], bytes]:
        """ModelError, HTTP 424 (API_runtime_InvokeEndpoint)."""
        group = f"/aws/sagemaker/Endpoints/{name}"
        original = status or 500
        side = "server" if original >= 500 else "client"
        where = f"See {group} in account {self._core.context.account} for more information."
        message = f'Received {side} error ({original}) from {variant} with message "{said}". {where}'
        document = {"Message": message, "OriginalMessage": said, "OriginalStatusCode": original, "LogStreamArn": self._log_arn(group)}
        return 424, {"Content-Type": "application/json", "x-amzn-ErrorType": "ModelError"}, json.dumps(document).encode()

    def _log_arn(self, group: str) -> str:
        return f"arn:aws:logs:{self._core.context.region}:{self._core.context.account}:log-group:{group}"

    def close(self) -> None:
        """End every server process."""
        with self._lock:
            starting, serving = list(self._starting.values()), list(self._servers.values())
            self._servers.clear()
        for server in starting:
            server.cancel()
        for server in serving:
            server.close()
        for thread in self._threads:
            thread.join(timeout=30)


def _in_service(document: Document, config: Document) -> None:
    variant = config["ProductionVariants"][0]
    document.update(
        EndpointStatus="InService",
        EndpointConfigName=config["EndpointConfigName"],
        ProductionVariants=[
            {
                "VariantName": variant["VariantName"],
                "CurrentWeight": variant["InitialVariantWeight"],
                "DesiredWeight": variant["InitialVariantWeight"],
                "CurrentInstanceCount": variant["InitialInstanceCount"],
                "DesiredInstanceCount": variant["InitialInstanceCount"],
            }
        ],
    )
    document.pop("FailureReason", None)


def _taken(existing: Document) -> AwsError:
    return invalid(f'Cannot create already existing endpoint "{existing["EndpointArn"]}".')
