"""The endpoints of the account, what runs for each, and their invocations.

InService means that every container answered /ping with 200. A document is deleted after its
processes have ended.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from botocore import xform_name

from shoal_local.errors import AwsError
from shoal_local.processes import in_thread
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core, event_detail
from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.hosting.deployment import ClosingError, Deployment, Plan, plan_of
from shoal_local.sagemaker.hosting.models import EndpointConfigs
from shoal_local.sagemaker.hosting.server import Fleet
from shoal_local.sagemaker.hosting.traffic import KIND, Traffic
from shoal_local.sagemaker.resources import KINDS, Resources
from shoal_local.sagemaker.shapes import Document, fitting

IN_PROGRESS = frozenset({"Creating", "Updating", "RollingBack", "Deleting"})


@dataclass
class HostedEndpoint:
    """What runs for one endpoint: the fleet that serves, and the one that is being started."""

    traffic: Traffic
    fleet: Fleet | None = None
    next_fleet: Fleet | None = None


class Endpoints(Resources):
    """The endpoints of the account."""

    kind = KINDS[KIND]
    verbs: ClassVar[tuple[str, ...]] = (*Resources.verbs, "update")

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._hosted: dict[str, HostedEndpoint] = {}
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()

    def create(self, request: Document) -> Document:
        """Create an endpoint. A DeploymentConfig has no fleet to shift traffic from."""
        config = EndpointConfigs(self._core).describe(request)
        plan_of(request.get("DeploymentConfig"))
        members = {key: value for key, value in request.items() if key != "DeploymentConfig"}
        document = self.keep(members, EndpointStatus="Creating")
        name = document["EndpointName"]
        self._hosted[name] = HostedEndpoint(Traffic(self._core, name))
        self._tell(document)
        self._in_background(self._deploy, name, config, Plan())
        return {"EndpointArn": document["EndpointArn"]}

    def update(self, request: Document) -> Document:
        """Deploy another configuration; a failed endpoint can only be deleted (EndpointStatus)."""
        document = self.describe(request)
        name, arn = document["EndpointName"], document["EndpointArn"]
        self._check_not_in_progress(document)
        if document["EndpointStatus"] == "Failed":
            raise invalid(f'Cannot update failed endpoint "{arn}". It can only be deleted.')
        config = EndpointConfigs(self._core).describe(request)
        plan = plan_of(request.get("DeploymentConfig"))

        def edit(document: Document) -> None:
            self._check_not_in_progress(document)
            document.update(EndpointStatus="Updating")
            document.pop("FailureReason", None)

        self._change(name, edit)
        self._in_background(self._deploy, name, config, plan)
        return {"EndpointArn": arn}

    def _deploy(self, name: str, config: Document, plan: Plan) -> None:
        hosted = self._hosted[name]
        try:
            hosted.next_fleet = Fleet(self._core, name, config)
        except AwsError as error:
            status, reason = "InService" if hosted.fleet else "Failed", error.message
            self._change(
                name, lambda each: each.update(EndpointStatus=status, FailureReason=reason)
            )
            return
        deployment = Deployment(
            self._core,
            name,
            hosted.traffic,
            hosted.fleet,
            hosted.next_fleet,
            plan,
            partial(self._change, name),
            self._closing,
        )
        with suppress(ClosingError):
            fleet, edit = deployment.run()
            # the status allows an update or a deletion, which must see what serves
            hosted.fleet, hosted.next_fleet = fleet, None
            self._change(name, edit)

    def delete(self, request: Document) -> Document:
        name = self.describe(request)["EndpointName"]

        def edit(document: Document) -> None:
            self._check_not_in_progress(document)
            document.update(EndpointStatus="Deleting")

        self._change(name, edit)
        self._in_background(self._remove, name)
        return {}

    def _remove(self, name: str) -> None:
        """End the processes, then delete the document: its absence proves that they have ended."""
        if rule := self._core.context.faults.hit("removal", name, name):
            self._closing.wait(rule.seconds)
        hosted = self._hosted.pop(name)
        hosted.traffic.route()
        if hosted.fleet:
            hosted.traffic.retire(hosted.fleet)
        self._core.store.delete(KIND, name)

    def _check_not_in_progress(self, document: Document) -> None:
        if document["EndpointStatus"] in IN_PROGRESS:
            raise invalid(f'Cannot update in-progress endpoint "{document["EndpointArn"]}".')

    def _change(self, name: str, edit: Callable[[Document], None]) -> None:
        def stamped(document: Document) -> None:
            edit(document)
            if reason := document.get("FailureReason"):
                reason = fitting("DescribeEndpointOutput", "FailureReason", reason)
                document["FailureReason"] = reason
            document["LastModifiedTime"] = names.now()

        self._tell(self._core.store.change(KIND, name, stamped))

    def _tell(self, document: Document) -> None:
        """Publish the endpoint's state, and that of its deployment while there is one."""
        # IN_SERVICE, as in the guide's event examples; the API itself says InService
        status, arn = xform_name(document["EndpointStatus"]).upper(), document["EndpointArn"]
        detail = event_detail(document) | {"EndpointStatus": status}
        self._emit(document, detail)
        if "PendingDeploymentSummary" in document:
            self._core.emit("SageMaker Endpoint Deployment State Change", detail, arn)

    def _in_background(self, work: Callable[..., None], *arguments: Any) -> None:
        alive = [each for each in self._threads if each.is_alive()]
        self._threads = [*alive, in_thread("endpoint", work, *arguments)]

    def traffic(self, name: str) -> Traffic:
        """Return what answers an invocation; one without routes for what does not exist."""
        hosted = self._hosted.get(name)
        return hosted.traffic if hosted else Traffic(self._core, name)

    def close(self) -> None:
        """End every server process."""
        self._closing.set()
        hosted = list(self._hosted.values())
        for each in hosted:
            if each.next_fleet:
                each.next_fleet.server.cancel()
        for thread in self._threads:
            thread.join(timeout=30)
        for each in hosted:
            for fleet in filter(None, (each.fleet, each.next_fleet)):
                fleet.server.close()
