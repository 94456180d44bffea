"""CreateEndpoint, UpdateEndpoint, UpdateEndpointWeightsAndCapacities, DescribeEndpoint,
ListEndpoints, DeleteEndpoint, InvokeEndpoint, InvokeEndpointWithResponseStream.

InService means that every container answered /ping with 200. A document is deleted after its
processes have ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core, event_detail
from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.hosting import configs, variants
from shoal_local.sagemaker.hosting.deployment import FAILURES, ClosingError, Deployment
from shoal_local.sagemaker.hosting.fleet import Fleet, close
from shoal_local.sagemaker.hosting.guardrails import Plan, plan_of
from shoal_local.sagemaker.hosting.scaling import scale
from shoal_local.sagemaker.hosting.server import ServerFailedError
from shoal_local.sagemaker.hosting.streams import StreamedInvocation
from shoal_local.sagemaker.hosting.traffic import Invocation, Traffic
from shoal_local.sagemaker.listing import Listing
from shoal_local.sagemaker.shapes import Document, fitting

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
    "SystemUpdating": "SYSTEM_UPDATING",
}
"""As in the guide's event examples, the last one by analogy; the API itself says InService."""


@dataclass
class HostedEndpoint:
    """What runs for one endpoint: the fleet that serves, and the one that is being started."""

    traffic: Traffic
    fleet: Fleet | None = None
    next_fleet: Fleet | None = None


class Endpoints:
    """The endpoints of the account."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._hosted: dict[str, HostedEndpoint] = {}
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()

    def create(self, request: Document) -> Document:
        """Create an endpoint.

        Its DeploymentConfig is kept for updates: a new endpoint has no fleet to shift traffic from.
        """
        config = self._config(request["EndpointConfigName"])
        self._plan(request.get("DeploymentConfig"), config)
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
            **(
                {"LastDeploymentConfig": request["DeploymentConfig"]}
                if request.get("DeploymentConfig")
                else {}
            ),
        }
        self._core.store.create(KIND, name, document, _name_in_use)
        self._host(name)
        self._emit(document)
        self._in_background(lambda: self._deploy(name, config, Plan()))
        return {"EndpointArn": document["EndpointArn"]}

    def _host(self, name: str) -> None:
        traffic = Traffic(name, self._core.settings.invocation_s)
        self._hosted[name] = HostedEndpoint(traffic)

    def update(self, request: Document) -> Document:
        document = self._find_updatable(request)
        config = self._config(request["EndpointConfigName"])
        if request.get("RetainAllVariantProperties"):
            excluded = {
                each["VariantPropertyType"]
                for each in request.get("ExcludeRetainedVariantProperties", [])
            }
            config = variants.with_retained_properties(
                config, document.get("ProductionVariants", []), excluded
            )
        last = (
            document.get("LastDeploymentConfig") if request.get("RetainDeploymentConfig") else None
        )
        deployment_config = request.get("DeploymentConfig") or last
        plan = self._plan(deployment_config, config)
        name = document["EndpointName"]
        self._enter_updating(
            name, {"LastDeploymentConfig": deployment_config} if deployment_config else {}
        )
        self._in_background(lambda: self._deploy(name, config, plan))
        return {"EndpointArn": document["EndpointArn"]}

    def update_weights_and_capacities(self, request: Document) -> Document:
        """Change weights, instances or concurrency of variants of the fleet that serves.

        Raise ValidationException for what a variant cannot become.
        """
        document = self._find_updatable(request)
        name = document["EndpointName"]
        fleet = self._hosted[name].fleet
        if fleet is None:
            raise invalid(
                f'Cannot update endpoint "{document["EndpointArn"]}" in status'
                f" {document['EndpointStatus']}."
            )
        work = scale(fleet, self._hosted[name].traffic, request["DesiredWeightsAndCapacities"])
        self._enter_updating(name, {})
        self._in_background(lambda: self._scale(name, fleet, work))
        return {"EndpointArn": document["EndpointArn"]}

    def _enter_updating(self, name: str, changes: Document) -> None:
        """Set the status Updating, unless something else has begun meanwhile."""

        def edit(document: Document) -> None:
            self._check_not_in_progress(document)
            document.update(EndpointStatus="Updating", **changes)
            document.pop("FailureReason", None)

        self._change(name, edit)

    def _scale(self, name: str, fleet: Fleet, work: Callable[[], None]) -> None:
        reason = ""
        try:
            work()
        except FAILURES as error:
            reason = str(error)

        def edit(document: Document) -> None:
            document.update(
                EndpointStatus="InService", ProductionVariants=variants.summaries(fleet)
            )
            if reason:
                document["FailureReason"] = reason

        self._change(name, edit)

    def _config(self, name: str) -> Document:
        config = self._core.store.get(configs.KIND, name)
        if config is None:
            raise invalid(
                "Could not find endpoint configuration"
                f' "{self._core.arn("endpoint-config", name)}".'
            )
        return config

    def _plan(self, deployment: Document | None, config: Document) -> Plan:
        return plan_of(
            deployment,
            min(each.get("InitialInstanceCount", 1) for each in config["ProductionVariants"]),
        )

    def _deploy(self, name: str, config: Document, plan: Plan) -> None:
        hosted = self._hosted[name]
        try:
            hosted.next_fleet = Fleet(self._core, name, config)
        except ServerFailedError as error:
            self._end_without_fleet(name, serves=hosted.fleet is not None, reason=str(error))
            return

        def change_document(edit: Callable[[Document], None]) -> None:
            self._change(name, edit)

        try:
            deployment = Deployment(
                self._core,
                name,
                hosted.traffic,
                hosted.fleet,
                hosted.next_fleet,
                plan,
                change_document,
                self._closing,
            )
            hosted.fleet = deployment.run()
            hosted.next_fleet = None
        except ClosingError:
            return

    def _end_without_fleet(self, name: str, *, serves: bool, reason: str) -> None:
        self._change(
            name,
            lambda each: each.update(
                EndpointStatus="InService" if serves else "Failed", FailureReason=reason
            ),
        )

    def describe(self, request: Document) -> Document:
        name = request["EndpointName"]
        document = self._core.store.get(KIND, name)
        if document is None:
            raise invalid(f'Could not find endpoint "{self._core.arn("endpoint", name)}".')
        hosted = self._hosted.get(document["EndpointName"])
        config = hosted.fleet.config if hosted and hosted.fleet else {}
        if "DataCaptureConfig" in config:
            document["DataCaptureConfig"] = configs.capture_summary(config)
        return document

    def list(self, request: Document) -> Document:
        return self._core.store.listed(
            KIND, lambda all_of_them: _LISTING.page(all_of_them, request, in_order=True)
        )

    def delete(self, request: Document) -> Document:
        name = self.describe(request)["EndpointName"]

        def edit(document: Document) -> None:
            self._check_not_in_progress(document)
            document.update(EndpointStatus="Deleting")

        self._change(name, edit)
        self._in_background(lambda: self._remove(name))
        return {}

    def _remove(self, name: str) -> None:
        """End the processes, then delete the document: its absence proves that they have ended."""
        faults = self._core.context.faults
        if rule := faults.take("removal", name, name):
            faults.happened(rule, name)
            self._closing.wait(rule.seconds)
        hosted = self._hosted.pop(name)
        hosted.traffic.route()
        if hosted.fleet:
            hosted.traffic.retire(hosted.fleet.instances())
        self._core.store.delete(KIND, name)

    def _find_updatable(self, request: Document) -> Document:
        """Return the endpoint if it can be updated.

        A failed one can only be deleted (API reference, DescribeEndpoint: EndpointStatus).
        """
        document = self.describe(request)
        self._check_not_in_progress(document)
        if document["EndpointStatus"] == "Failed":
            raise invalid(
                f'Cannot update failed endpoint "{document["EndpointArn"]}". It can only be'
                " deleted."
            )
        return document

    def _check_not_in_progress(self, document: Document) -> None:
        if document["EndpointStatus"] in _IN_PROGRESS:
            raise invalid(f'Cannot update in-progress endpoint "{document["EndpointArn"]}".')

    def _change(self, name: str, edit: Callable[[Document], None]) -> None:
        def stamped(document: Document) -> None:
            edit(document)
            if reason := document.get("FailureReason"):
                document["FailureReason"] = fitting(
                    "DescribeEndpointOutput", "FailureReason", reason
                )
            document["LastModifiedTime"] = names.now()

        self._emit(self._core.store.change(KIND, name, stamped))

    def _emit(self, document: Document) -> None:
        """Publish the endpoint's state, and that of its deployment while there is one."""
        detail = event_detail(document) | {
            "EndpointStatus": _EVENT_STATUS[document["EndpointStatus"]]
        }
        self._core.emit("SageMaker Endpoint State Change", detail, document["EndpointArn"])
        if "PendingDeploymentSummary" in document:
            self._core.emit(
                "SageMaker Endpoint Deployment State Change", detail, document["EndpointArn"]
            )

    def _in_background(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="endpoint", daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def invoke(
        self, name: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """Answer InvokeEndpoint with status, headers and body.

        Raise ValidationError for an endpoint that does not exist or does not serve.
        """
        traffic = self._open(name).traffic
        return Invocation(self._core, name, body, headers).send(traffic)

    def invoke_with_stream(
        self, name: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, str], bytes | Iterator[bytes]]:
        """Answer InvokeEndpointWithResponseStream with status, headers and a stream of events, or
        the body of an error. Raises what `invoke` raises.
        """
        traffic = self._open(name).traffic
        return StreamedInvocation(self._core, name, body, headers).stream(traffic)

    def _open(self, name: str) -> HostedEndpoint:
        status = self._core.store.view(KIND, name, lambda each: str(each["EndpointStatus"]))
        hosted = self._hosted.get(name)
        if status is None:
            raise AwsError(
                "ValidationError",
                f"Endpoint {name} of account {self._core.context.account} not found.",
            )
        if hosted is None or not hosted.traffic.is_open:
            raise AwsError(
                "ValidationError",
                f"Endpoint {name} is not in service (status {status}).",
            )
        return hosted

    def close(self) -> None:
        """End every server process."""
        self._closing.set()
        hosted = list(self._hosted.values())
        for each in hosted:
            if each.next_fleet:
                each.next_fleet.cancel()
        for thread in self._threads:
            thread.join(timeout=30)
        for each in hosted:
            for fleet in filter(None, (each.fleet, each.next_fleet)):
                close(instance.server for instance in fleet.instances())


def _name_in_use(existing: Document) -> AwsError:
    return invalid(f'Cannot create already existing endpoint "{existing["EndpointArn"]}".')
