"""CreateMlflowTrackingServer, DescribeMlflowTrackingServer, ListMlflowTrackingServers,
StartMlflowTrackingServer, StopMlflowTrackingServer, DeleteMlflowTrackingServer, and MLflow's own
API.

Created and Started mean that the server answered /health. What AWS answers for a name in use, for a
server that does not run and for the deletion of one that is being created is not documented; the
words are ours.
"""

from __future__ import annotations

import http.client
import logging
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.container.launch import PodError, isolation_refused
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import conflict, not_emulated, not_found
from shoal_local.sagemaker.jobs.paths import JobPaths
from shoal_local.sagemaker.listing import Listing
from shoal_local.sagemaker.references import assume
from shoal_local.sagemaker.shapes import Document
from shoal_local.sagemaker.tracking.process import (
    Answer,
    ServerEndedError,
    ServerProcess,
    installed_version,
)

KIND = "mlflow-tracking-server"
_LISTING = Listing(
    "TrackingServerSummaries", "TrackingServerSummary", "TrackingServerName", "TrackingServerStatus"
)
_FILTERS = {
    "CreatedAfter": "CreationTimeAfter",
    "CreatedBefore": "CreationTimeBefore",
    "TrackingServerStatus": "StatusEquals",
}
_FAILURES = (ServerEndedError, PodError, AwsError, OSError)
_RUNS = ("Created", "Started")
_log = logging.getLogger(__name__)


class TrackingServers:
    """The tracking servers of the account."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._processes: dict[str, ServerProcess] = {}
        self._threads: list[threading.Thread] = []

    def create(self, request: Document) -> Document:
        version, name, now = self._check(request), request["TrackingServerName"], names.now()
        arn = self._core.arn(KIND, name)
        document = {
            "TrackingServerSize": "Small",
            "AutomaticModelRegistration": False,
            **{key: value for key, value in request.items() if key != "Tags"},
            "_name": name,
            "_tags": request.get("Tags", []),
            "TrackingServerArn": arn,
            "MlflowVersion": version,
            "TrackingServerStatus": "Creating",
            "IsActive": "Inactive",
            "CreationTime": now,
            "LastModifiedTime": now,
        }
        self._core.store.create(KIND, name, document, _name_in_use)
        self._delete_files(name)  # of an earlier emulator with this state directory
        self._run(document, "Created", "CreateFailed")
        return {"TrackingServerArn": arn}

    def _check(self, request: Document) -> str:
        """Return MLflow's version; raise AwsError for what is wrong or not emulated."""
        version = installed_version()
        if version is None:
            raise not_emulated(
                "MLflow's tracking servers unless MLflow is installed:"
                " `pip install 'shoal-local[mlflow]'`"
            )
        if request.get("AutomaticModelRegistration"):
            raise not_emulated("AutomaticModelRegistration of a tracking server")
        owner = self._core.context.account
        if request.get("S3BucketOwnerAccountId", owner) != owner:
            raise not_emulated("S3BucketOwnerAccountId of another account than the server's")
        if not request["ArtifactStoreUri"].startswith("s3://"):
            raise not_emulated("an ArtifactStoreUri that does not begin with s3://")
        assume(self._core, request["RoleArn"], request["TrackingServerName"])
        _check_isolation()
        return version

    def describe(self, request: Document) -> Document:
        return self._find(request["TrackingServerName"])

    def list(self, request: Document) -> Document:
        version = request.get("MlflowVersion")
        documents = [
            each for each in self._core.store.all(KIND) if version in (None, each["MlflowVersion"])
        ]
        filters = {
            _FILTERS.get(key, key): value
            for key, value in request.items()
            if key != "MlflowVersion"
        }
        return _LISTING.page(documents, filters)

    def start(self, request: Document) -> Document:
        document = self._enter(request, ("Stopped", "StartFailed"), "Starting")
        self._run(document, "Started", "StartFailed")
        return {"TrackingServerArn": document["TrackingServerArn"]}

    def stop(self, request: Document) -> Document:
        document = self._enter(request, _RUNS, "Stopping")
        self._in_background(lambda: self._rest(document["_name"]))
        return {"TrackingServerArn": document["TrackingServerArn"]}

    def delete(self, request: Document) -> Document:
        document = self._enter(request, None, "Deleting")
        self._in_background(lambda: self._remove(document["_name"]))
        return {"TrackingServerArn": document["TrackingServerArn"]}

    def call(
        self, arn: str, method: str, target: str, body: bytes, headers: Mapping[str, str]
    ) -> Answer:
        """Return the answer of a server's own API.

        IAM was asked about the text of `arn`, so it must be the server's own in every letter.
        The words about a server that does not exist are AWS's, as people report them.
        """
        document = self._core.store.get(KIND, names.last_part(arn))
        if document is None or document["TrackingServerArn"] != arn:
            return 404, {"Content-Type": "text/plain"}, b"Tracking server could not be found"
        process = self._processes.get(document["_name"])
        if process is None or document["TrackingServerStatus"] not in _RUNS:
            raise conflict(
                f"The tracking server {arn} is {document['TrackingServerStatus']}; it answers when"
                " it is Created or Started."
            )
        try:
            return process.request(method, target, body, headers)
        except (OSError, http.client.HTTPException) as error:
            raise AwsError(
                "InternalFailure", f"The tracking server did not answer: {error}", 500
            ) from error

    def close(self) -> None:
        """End every server."""
        for process in list(self._processes.values()):
            process.close()
        for thread in self._threads:
            thread.join()

    def _find(self, name: str) -> Document:
        document = self._core.store.get(KIND, name)
        if document is None:
            raise not_found(f"Tracking server {self._core.arn(KIND, name)} does not exist.")
        return document

    def _enter(self, request: Document, allowed: tuple[str, ...] | None, status: str) -> Document:
        """Return the server in a new status; raise ConflictException from another than allowed."""

        def edit(document: Document) -> None:
            now = document["TrackingServerStatus"]
            if now == "Deleting" or (allowed and now not in allowed):
                raise conflict(
                    f"The tracking server {document['TrackingServerArn']} is {now}, and cannot"
                    f" become {status}."
                )
            document.update(TrackingServerStatus=status, LastModifiedTime=names.now())

        name = self._find(request["TrackingServerName"])["_name"]
        return self._core.store.change(KIND, name, edit)

    def _run(self, document: Document, well: str, badly: str) -> None:
        """Run the server's process from now on; the status says how that went."""
        name, before = document["_name"], document["TrackingServerStatus"]
        process = self._processes[name] = ServerProcess(self._core, document)

        def run() -> None:
            try:
                process.start(self._core.context.role_credentials(document["RoleArn"], name[:64]))
            except _FAILURES:
                _log.exception("the tracking server %s does not run", name)
                process.close()
                self._set(name, before, badly, "Inactive")
            else:
                self._set(name, before, well, "Active")

        self._in_background(run)

    def _rest(self, name: str) -> None:
        if process := self._processes.pop(name, None):  # None: a deletion was faster
            process.close()
        self._set(name, "Stopping", "Stopped", "Inactive")

    def _set(self, name: str, before: str, status: str, active: str) -> None:
        """Set the status, unless the server is being deleted meanwhile."""

        def edit(document: Document) -> None:
            if document["TrackingServerStatus"] == before:
                document.update(
                    TrackingServerStatus=status, IsActive=active, LastModifiedTime=names.now()
                )

        try:
            self._core.store.change(KIND, name, edit)
        except KeyError:
            return

    def _remove(self, name: str) -> None:
        """End the process, then delete the document: its absence proves that it has ended."""
        if process := self._processes.pop(name, None):
            process.close()
        self._delete_files(name)
        self._core.store.delete(KIND, name)

    def _delete_files(self, name: str) -> None:
        shutil.rmtree(self._folder(name), ignore_errors=True)

    def _folder(self, name: str) -> Path:
        return JobPaths.of(self._core.context.state_dir, "tracking", name).folder

    def _in_background(self, work: Callable[[], None]) -> None:
        self._threads = [each for each in self._threads if each.is_alive()]
        thread = threading.Thread(target=work, name="tracking-server", daemon=True)
        self._threads.append(thread)
        thread.start()


def _check_isolation() -> None:
    if reason := isolation_refused():
        raise not_emulated(
            "MLflow's tracking servers on this machine: they have no access control, so they need a"
            f" network of their own, and namespaces are refused ({reason})"
        )


def _name_in_use(existing: Document) -> AwsError:
    return conflict(f"The tracking server {existing['TrackingServerArn']} exists already.")
