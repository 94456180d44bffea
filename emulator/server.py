"""One emulator: an HTTP server on 127.0.0.1 with the control plane, moto and SageMaker behind it, and a state directory that
says where it is. `Emulator.start()` returns when it answers; `close()` stops every thread and child."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from emulator.context import ServiceContext
from emulator.control import metricstore, refusals
from emulator.control.alarms import Alarms
from emulator.control.authorization.account import AccountState
from emulator.control.authorization.authorizer import Authorizer
from emulator.control.authorization.evaluator import Evaluator
from emulator.control.building import Building
from emulator.control.clients import Clients
from emulator.control.cloudformation.service import CloudFormation
from emulator.control.dispatcher import Dispatcher, Service
from emulator.control.doorkeeper import Doorkeeper
from emulator.control.events import Events
from emulator.control.fsx.filesystems import FileSystems
from emulator.control.fsx.service import Fsx
from emulator.control.functions.invoker import Invoker
from emulator.control.functions.mappings import EventSources
from emulator.control.functions.service import Functions
from emulator.control.functions.tagging import Tagging
from emulator.control.identity import Identity
from emulator.control.motofixes import change_cloudwatch, change_s3, warm_up
from emulator.control.quotas import Quotas
from emulator.control.registries import Registries
from emulator.control.requestlog import RequestLog
from emulator.control.sagemaker import Gateway, SageMaker
from emulator.control.scheduler.service import Scheduler
from emulator.control.state import State
from emulator.errors import EmulatorError
from emulator.metrics import Measurement
from emulator.processes import ProcessRegistry, started_at
from emulator.runtimes.catalog import runtimes
from emulator.sagemaker.jobs.containers import Machine
from emulator.sagemaker.service import SageMakerService
from emulator.sagemaker.settings import Settings

HOST = "127.0.0.1"
BACKLOG = 128
SAGEMAKER = "sagemaker.amazonaws.com"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """What `serve` is told. `accelerators`: how many GPUs of this machine training jobs may use; `images`: runtimes by patterns of the
    user's own images; `schedule_speed`, `hosting_speed`: how much faster than the clock schedules, and deployments to endpoints, run;
    `enforce_iam`: whether callers' policies are applied. Raises EmulatorError for a runtime that there is not."""

    state_dir: Path
    account: str
    region: str
    port: int = 0
    accelerators: int = 0
    images: Mapping[str, str] = field(default_factory=dict)
    schedule_speed: float = 1.0
    hosting_speed: float = 1.0
    enforce_iam: bool = False

    def __post_init__(self) -> None:
        for pattern, runtime in self.images.items():
            if runtime not in runtimes():
                raise EmulatorError(f"--image {pattern}={runtime}: there is no runtime {runtime!r}; there are: {', '.join(runtimes())}")


class QuietRequestHandler(MotoRequestHandler):
    """Requests are in requests.jsonl; the access log of the server would say less."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing."""


class Emulator:
    """Wires the parts; every part gets the others through its constructor."""

    def __init__(self, options: Options) -> None:
        self.options = options
        change_s3()
        change_cloudwatch()
        self.state = State(options.state_dir)
        self.registry = ProcessRegistry(options.state_dir)
        self._port = options.port
        self._thread: threading.Thread | None = None
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.identity = Identity(options.account, options.region)
        self.clients = Clients(self.endpoint_url, options.region)
        self.invoker = Invoker(self.identity, self.clients, self.registry, options.state_dir / "lambda")
        self.functions = Functions(self.identity, self.clients, self.invoker, options.state_dir / "lambda")
        self.sources = EventSources(self.identity, self.clients, self.functions)
        self.events = Events(self.identity, self.clients, self.functions, options.schedule_speed)
        self.scheduler = Scheduler(self.identity, self.clients, self._measure, options.schedule_speed)
        self.fsx = Fsx(FileSystems(self.identity, self.clients, options.state_dir / "fsx"))
        settings = Settings(accelerators=options.accelerators or None, images=options.images, hosting_speed=options.hosting_speed)
        self.sagemaker: SageMaker = SageMakerService(self._context(), settings)
        self.evaluator = Evaluator(self.registry)
        self.authorizer = self._authorizer()
        self.cloudformation = CloudFormation(self.identity, self.clients, self.functions, self.endpoint_url)
        self.dispatcher = self._dispatcher()
        self._server = self._listen(options.port)
        self._port = int(self._server.server_address[1])

    def _listen(self, port: int) -> BaseWSGIServer:
        """The server on its port. Bound here: werkzeug would print and exit where a port is taken."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            listener.close()
            raise EmulatorError(f"port {port} of {HOST} cannot be used: {error.strerror}") from error
        listener.listen(BACKLOG)
        with listener:
            bound = listener.getsockname()[1]
            app = Doorkeeper(self.dispatcher, bound)
            return make_server(HOST, bound, app, threaded=True, request_handler=QuietRequestHandler, fd=listener.fileno())

    def endpoint_url(self) -> str:
        """The name localhost, not the number: URLs of buckets and queues are read by it."""
        return f"http://localhost:{self._port}"

    def start(self) -> None:
        """Answer requests from a thread of ours, and say where in the state directory."""
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True, name="http")
        self._thread.start()
        self.state.write(self.description())
        threading.Thread(target=warm_up, args=(self.options.account, self.options.region), daemon=True, name="warm-up").start()

    def description(self) -> dict[str, Any]:
        """The ready line and emulator.json."""
        return {
            "endpoint": self.endpoint_url(),
            "pid": os.getpid(),
            "port": self._port,
            "process_started_at": started_at(os.getpid()),
            "started_at": self._started_at,
            "account": self.options.account,
            "region": self.options.region,
            "hosting_speed": self.options.hosting_speed,
            "enforces_iam": self.options.enforce_iam,
            "cores": Machine.here(None).cores,
        }

    def close(self) -> None:
        """Stop in the order in which parts use each other; the server last, because the others still call it."""
        steps: Iterable[Callable[[], object]] = (
            self.cloudformation.close,
            self.scheduler.close,
            self.sources.close,
            self.events.close,
            self.sagemaker.close,
            self.invoker.close,
            self._stop_server,
            self.evaluator.close,
            self.registry.sweep,
        )
        for step in steps:
            try:
                step()
            except Exception:
                log.exception("closing failed at %s", step)
        self.state.withdraw()

    def _stop_server(self) -> None:
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def _context(self) -> ServiceContext:
        return ServiceContext(
            account=self.options.account,
            region=self.options.region,
            state_dir=self.options.state_dir,
            endpoint_url=self.endpoint_url,
            clients=self.clients,
            emit_event=self._emit,
            role_credentials=lambda role_arn, session_name: self.identity.service_credentials(role_arn, session_name, SAGEMAKER),
            invoke_lambda=self.functions.invoke,
            measure=self._measure,
            mount=self.fsx.mount,
            on_behalf=lambda kind, name, request, credentials: self.authorizer.on_behalf(kind, name, request, credentials),
        )

    def _measure(self, measurement: Measurement) -> None:
        metricstore.keep(self.options.account, self.options.region, measurement)

    def _emit(self, entry: Mapping[str, Any]) -> None:
        self.events.emit(entry)

    def _dispatcher(self) -> Dispatcher:
        tagging = Tagging(self.functions, self.sources)
        alarms = Alarms(self.options.account, self.options.region, self.options.hosting_speed)
        services = {
            **{name: Service({}, guards=guards) for name, guards in refusals.GUARDS.items()},
            "cloudwatch": Service({}, guards={**refusals.GUARDS["cloudwatch"], "DescribeAlarms": alarms.guard}),
            "sts": Service(self.identity.operations),
            "iam": Service({}, guards=self.identity.guards),
            "events": Service(self.events.operations, guards=self.events.guards),
            "lambda": Service({**self.functions.operations, **self.sources.operations, **tagging.operations}, complete=True),
            "cloudformation": Service(self.cloudformation.operations, complete=True),
            "fsx": Service(self.fsx.operations, complete=True),
            "scheduler": Service(self.scheduler.operations, complete=True),
            "codebuild": Service(Building(self.identity).operations, complete=True),
            "service-quotas": Service(Quotas(self.identity).operations, complete=True),
            "ecr": Service({"BatchGetImage": Registries(self.identity).get_images}, guards=refusals.GUARDS["ecr"]),
        }
        moto = DomainDispatcherApplication(create_backend_app)
        raw = {"sagemaker": Gateway(self.sagemaker, self.authorizer)}
        return Dispatcher(self.identity, self.authorizer.requests, moto, services, self.authorizer, raw, self.cloudformation.answer_path)

    def _authorizer(self) -> Authorizer:
        options = self.options
        state = AccountState(
            options.account,
            options.region,
            self.functions,
            lambda operation, request: self.sagemaker.handle(operation, request, self.identity.root_arn),
        )
        requests = RequestLog(options.state_dir / "requests.jsonl")
        return Authorizer(self.identity, state, self.evaluator, requests, options.enforce_iam)
