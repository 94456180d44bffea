"""The emulator: an HTTP server on loopback with one or more accounts behind it.

`Emulator.start()` returns when it answers; `close()` stops every thread and child. The state
directory says where it listens.
"""

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from werkzeug.serving import BaseWSGIServer, make_server

from shoal_local.account import Account, Shared
from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.http.loopback_guard import LoopbackGuard
from shoal_local.control.http.protocol import Answer
from shoal_local.control.http.request_handler import RequestHandler, RequestLog, end_connections
from shoal_local.control.moto_patches import patch_moto
from shoal_local.control.objects import send_object_events
from shoal_local.control.service_router import AccountRouter
from shoal_local.control.state import State
from shoal_local.errors import EmulatorError
from shoal_local.faults import Faults
from shoal_local.processes import ProcessRegistry, in_thread, started_at
from shoal_local.runtimes.catalog import runtimes
from shoal_local.sagemaker.core import Settings
from shoal_local.sagemaker.jobs.base.containers import Machine

IPV4, IPV6 = "127.0.0.1", "::1"
BACKLOG = 128
MAX_RETRIES = 20


def listen(port: int, retries: int = MAX_RETRIES) -> list[socket.socket]:
    """Return a socket of 127.0.0.1, and one of ::1 where the machine has it; for port 0, both have
    the same free one.

    The emulator's URLs have the name `localhost`, which may mean either address. At one that is
    left free, another user's program could take requests and answer them.

    Raises EmulatorError when a port cannot be used at one of them.
    """
    listeners: list[socket.socket] = []
    for host in hosts():
        number = listeners[0].getsockname()[1] if listeners else port
        try:
            listeners.append(_listener(host, number))
        except OSError as error:
            for each in listeners:
                each.close()
            if port == 0 and retries:
                return listen(0, retries - 1)
            raise EmulatorError(
                f"port {number} of {host} cannot be used: {os.strerror(error.errno or 0)}"
            ) from error
    return listeners


def hosts() -> list[str]:
    """Return the loopback addresses of this machine."""
    try:
        _listener(IPV6, 0).close()
    except OSError:  # without IPv6 nobody can listen there
        return [IPV4]
    return [IPV4, IPV6]


def _listener(host: str, port: int) -> socket.socket:
    """Return a listening socket, which for IPv6 takes no IPv4."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


DURATIONS = sorted(each.name for each in fields(Settings) if each.name.endswith("_s"))

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """The options of `serve`.

    - `account`, `others`: the accounts that there are.
    - `region`, `other_regions`: the regions in which each of them has all services.
    - `settings`: those of SageMaker.
    - `schedule_speed`: how much faster than the clock schedules run.
    - `enforce_iam`: whether callers' policies are applied.
    - `faults`: the file of faults, for tests.

    Raises EmulatorError for a runtime that does not exist, and for an account that is named twice.
    """

    state_dir: Path
    account: str
    region: str
    settings: Settings = field(default_factory=Settings)
    port: int = 0
    schedule_speed: float = 1.0
    enforce_iam: bool = False
    others: tuple[str, ...] = ()
    other_regions: tuple[str, ...] = ()
    faults: Path | None = None

    @property
    def accounts(self) -> tuple[str, ...]:
        return (self.account, *self.others)

    @property
    def regions(self) -> tuple[str, ...]:
        return (self.region, *self.other_regions)

    def folder(self, account: str, region: str) -> Path:
        """Return the folder of the account's files in a region: the state directory itself while
        there is one account and one region, else a folder of its own.
        """
        folder = self.state_dir / "accounts" / account if self.others else self.state_dir
        return folder / "regions" / region if self.other_regions else folder

    def __post_init__(self) -> None:
        for option, values in (("account", self.accounts), ("region", self.regions)):
            if twice := [value for value in values if values.count(value) > 1]:
                raise EmulatorError(
                    f"--{option} {twice[0]} is given twice; name each {option} once"
                )
        for pattern, runtime in self.settings.images.items():
            check_known(f"--image {pattern}={runtime}", "runtime", runtime, runtimes())


def check_known(option: str, kind: str, name: str, names: Iterable[str]) -> None:
    """Raise EmulatorError if the option names something that does not exist."""
    if name not in names:
        known = ", ".join(names)
        raise EmulatorError(f"{option}: there is no {kind} {name!r}; there are: {known}")


class Emulator:
    """The accounts and the server in front of them.

    `accounts` are those of the first region, `home` is the first of them.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        patch_moto()
        self.state = State(options.state_dir)
        self.registry = ProcessRegistry(options.state_dir)
        self.secret = secrets.token_urlsafe(30)
        self._port = options.port
        self._threads: list[threading.Thread] = []
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.evaluator = Evaluator(self.registry)
        self.regions: dict[str, dict[str, Account]] = {}
        shared = self._shared()
        for region in options.regions:
            self.regions[region] = self._accounts(replace(shared, region=region))
        self.accounts = self.regions[options.region]
        self.home = self.accounts[options.account]
        send_object_events(self._emit)
        self._router = AccountRouter(
            {
                region: {number: account.router for number, account in accounts.items()}
                for region, accounts in self.regions.items()
            }
        )
        self._servers = self._listen(options.port)
        self._port = int(self._servers[0].server_address[1])

    def _accounts(self, shared: Shared) -> dict[str, Account]:
        """Return the accounts in a region. IAM and STS are global: an account's sessions are valid
        in every region.
        """
        accounts: dict[str, Account] = {}
        for number in self.options.accounts:
            folder = self.options.folder(number, shared.region)
            first = next(iter(self.regions.values()), {}).get(number)
            accounts[number] = Account(number, folder, shared, accounts, first)
        return accounts

    @property
    def _all(self) -> Iterable[Account]:
        """Return every account in every region."""
        return [each for accounts in self.regions.values() for each in accounts.values()]

    def _emit(self, number: str, region: str, entry: Mapping[str, Any]) -> None:
        """Put an event on a region's default bus; nobody listens in one that is not emulated."""
        if region in self.regions:
            self.regions[region][number].events.emit(entry)

    def _shared(self) -> Shared:
        options = self.options
        return Shared(
            region=options.region,
            regions=options.regions,
            secret=self.secret,
            endpoint_url=self.endpoint_url,
            registry=self.registry,
            evaluator=self.evaluator,
            requests=RequestLog(options.state_dir / "requests.jsonl"),
            settings=options.settings,
            faults=Faults(options.faults, options.state_dir / "faults.jsonl"),
            schedule_speed=options.schedule_speed,
            enforce_iam=options.enforce_iam,
            paths=self._answer_path,
        )

    def _answer_path(self, environ: dict[str, Any]) -> Answer | None:
        """Return the answer of the account that knows one of our own, unsigned URLs."""
        refusal = None
        for account in self._all:
            answer = account.cloudformation.answer_path(environ)
            if answer is not None and answer.status == HTTPStatus.OK:
                return answer
            refusal = refusal or answer
        return refusal

    def _listen(self, port: int) -> list[BaseWSGIServer]:
        """Return a server for each loopback address, all on the same port.

        The sockets are bound here, because werkzeug would print and exit when the port is taken.
        """
        servers = []
        for listener in listen(port):
            with listener:
                host, bound = listener.getsockname()[:2]
                server = make_server(
                    host,
                    bound,
                    LoopbackGuard(self._router, bound),
                    threaded=True,
                    request_handler=RequestHandler,
                    fd=listener.fileno(),
                )
            servers.append(server)
        return servers

    def endpoint_url(self) -> str:
        """Return the URL with the name localhost, not the address: clients derive URLs of buckets
        and queues from it.
        """
        return f"http://localhost:{self._port}"

    def start(self) -> None:
        """Write the address into the state directory, and answer requests from a thread."""
        self.state.write({**self.description(), "secret_access_key": self.secret})
        self._threads = [
            in_thread(f"http at {server.host}", server.serve_forever, 0.05)
            for server in self._servers
        ]

    def description(self) -> dict[str, Any]:
        """Return the ready line; emulator.json, which only its owner reads, has the secret too."""
        return {
            "endpoint": self.endpoint_url(),
            "pid": os.getpid(),
            "port": self._port,
            "process_started_at": started_at(os.getpid()),
            "started_at": self._started_at,
            "account": self.options.account,
            "accounts": list(self.options.accounts),
            "region": self.options.region,
            "regions": list(self.options.regions),
            "hosting_speed": self.options.settings.hosting_speed,
            "enforces_iam": self.options.enforce_iam,
            "cores": Machine.here(None).cores,
        }

    def close(self) -> None:
        """Stop the parts in the order in which they use each other; the server last, because the
        others still call it.
        """
        steps: Iterable[Callable[[], object]] = (
            *(step for account in self._all for step in account.closing),
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
        for server in self._servers if self._threads else ():
            server.shutdown()
        for thread in self._threads:
            thread.join()
        for server in self._servers:
            server.server_close()
            end_connections(server)
