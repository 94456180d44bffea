"""Emulators for tests: started on a free port, with clients, and stopped so that nothing is left.

    with emulator(tmp_path / "state", "--enforce-iam") as local:
        local.account.client("s3").create_bucket(Bucket="data")

A process starts in about two seconds, so let many tests share one: the fixture `sagemaker_local`
of `shoal_local.pytest_plugin` does. `in_process` starts an emulator inside the test's own process,
for tests that look into it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import boto3
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from shoal_local.control.identity.identity import root_of
from shoal_local.control.state import State
from shoal_local.errors import EmulatorError
from shoal_local.processes import started_at

if TYPE_CHECKING:
    from botocore.config import Config

    from shoal_local.server import Emulator

ACCOUNT_ID = "111122223333"
REGION = "us-east-1"
START_LIMIT_S = 60.0
STOP_LIMIT_S = 60.0
LEFTOVERS_LIMIT_S = 10.0
_in_process = threading.Lock()
_state_dirs: dict[str, Path] = {}
"""Of the emulators that this process has started, by endpoint."""


class _S3Signer(S3SigV4Auth):
    """Signs with a word in the place of the body's hash, if there is one."""

    body_hash: str | None = None

    def payload(self, request: AWSRequest) -> str:
        return self.body_hash or str(super().payload(request))


@dataclass(eq=False)
class LocalAccount:
    """An account of a running emulator, as its users see it."""

    endpoint: str
    state_dir: Path
    number: str = ACCOUNT_ID
    region: str = REGION
    _clients: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)

    @classmethod
    def of(cls, emulator: Emulator) -> Self:
        """Return the account of an emulator in this process."""
        options = emulator.options
        _state_dirs[emulator.endpoint_url()] = options.state_dir
        return cls(emulator.endpoint_url(), options.state_dir, options.account, options.region)

    def other(self, number: str) -> LocalAccount:
        """Return another account of the same emulator."""
        return LocalAccount(self.endpoint, self.state_dir, number, self.region)

    def in_region(self, region: str) -> LocalAccount:
        """Return the same account in another region."""
        return LocalAccount(self.endpoint, self.state_dir, self.number, region)

    @property
    def key(self) -> str:
        """Return the access key of its root."""
        return root_of(self.number, "").access_key_id

    @functools.cached_property
    def secret(self) -> str:
        """Return its root's secret access key, which the emulator wrote at its start."""
        return State(self.state_dir).secret()

    def client(self, service: str, config: Config | None = None) -> Any:
        """Return a boto3 client of the account's root, the same one each time.

        One with a `config` is new.
        """
        if config is not None:
            return self.client_of(service, self.key, self.secret, config=config)
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self.client_of(service, self.key, self.secret)
            return self._clients[service]

    def client_of(
        self,
        service: str,
        key: str,
        secret: str,
        token: str | None = None,
        config: Config | None = None,
    ) -> Any:
        """Return a new boto3 client with these credentials."""
        return boto3.client(  # type: ignore[call-overload]
            service,
            region_name=self.region,
            endpoint_url=self.endpoint,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            aws_session_token=token,
            config=config,
        )

    def signed(
        self,
        method: str,
        path: str,
        service: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        payload: str | None = None,
    ) -> dict[str, str]:
        """Return `headers` with the signature of the account's root, for a request that no boto3
        client sends.

        `payload` stands for the body's hash in a request to S3, as UNSIGNED-PAYLOAD does.
        """
        keys = (Credentials(self.key, self.secret), service, self.region)
        signer = _S3Signer(*keys) if service == "s3" else SigV4Auth(*keys)
        if isinstance(signer, _S3Signer):
            signer.body_hash = payload
        request = AWSRequest(method, f"{self.endpoint}{path}", dict(headers or {}), body)
        signer.add_auth(request)
        return dict(request.headers.items())

    def as_role(self, service: str, role_arn: str) -> Any:
        """Return a new boto3 client with the role's credentials."""
        answer = self.client("sts").assume_role(RoleArn=role_arn, RoleSessionName="tests")
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
        return self.client_of(service, *(answer["Credentials"][name] for name in names))

    def environment(self) -> dict[str, str]:
        """Return the environment in which AWS programs speak to this emulator as the
        account's root, with nothing else of AWS.
        """
        return {"PATH": os.environ["PATH"], "HOME": str(self.state_dir), **self.variables()}

    def variables(self) -> dict[str, str]:
        """Return the variables of AWS among them, which leave no setting to the user's files."""
        state = State(self.state_dir)
        return {
            **state.variables(self.endpoint, self.number, self.region, self.secret),
            "AWS_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }


@dataclass(frozen=True)
class LocalEmulator:
    """An emulator in a process of its own."""

    process: subprocess.Popen[str]
    account: LocalAccount
    ready: Mapping[str, Any]
    """The line that it printed when it was ready."""

    @classmethod
    def start(
        cls,
        state_dir: Path,
        *options: str,
        environment: Mapping[str, str] | None = None,
        errors: IO[str] | None = None,
        python: str = sys.executable,
    ) -> LocalEmulator:
        """Start `python -m shoal_local serve` and return when it answers requests.

        `options` are those of `serve`; its account is ACCOUNT_ID unless they name others.
        `environment` replaces this process's own, `errors` takes what it prints there, `python`
        runs it. Raises EmulatorError if it ends before it is ready.
        """
        default = () if "--account" in options else ("--account", ACCOUNT_ID)
        command = [python, "-m", "shoal_local", "serve", "--state-dir", str(state_dir)]
        process = subprocess.Popen(
            [*command, *default, *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        late = threading.Timer(START_LIMIT_S, process.kill)
        late.start()
        line = process.stdout.readline() if process.stdout else ""
        late.cancel()
        if not line:
            raise EmulatorError(f"the emulator ended with exit code {process.wait()} at its start")
        ready = json.loads(line)
        _state_dirs[ready["endpoint"]] = state_dir
        account = LocalAccount(ready["endpoint"], state_dir, ready["account"], ready["region"])
        return cls(process, account, ready)

    def stop(self) -> list[str]:
        """Stop the emulator and return what is left of it, which should be nothing.

        After a kill, do what a person does after a crash: `python -m shoal_local down`.
        """
        if self.process.poll() is not None:
            clean_up(self.account.state_dir)
        self.process.terminate()
        try:
            self.process.communicate(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return ["an emulator that did not stop", *self.leftovers()]
        if (code := self.process.returncode) not in {0, -signal.SIGKILL}:
            return [f"exit code {code}", *self.leftovers()]
        return self.leftovers()

    def kill(self) -> None:
        """Kill the emulator, which can clean up nothing then."""
        self.process.kill()
        self.process.wait()

    def leftovers(self) -> list[str]:
        """Return the processes, the port and the locks that an emulator which has ended left,
        once they have had a moment to go.
        """
        state_dir = self.account.state_dir
        deadline = time.monotonic() + LEFTOVERS_LIMIT_S
        while (
            left := [
                *processes_with(str(state_dir), without={self.process.pid}),
                *listener(self.account.endpoint),
                *(f"lock {path}" for path in state_dir.rglob("*.lock")),
            ]
        ) and time.monotonic() < deadline:
            time.sleep(0.2)
        return left


@contextlib.contextmanager
def emulator(
    state_dir: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> Iterator[LocalEmulator]:
    """An emulator for the time of a block; see `LocalEmulator.start` for the arguments.

    Raises EmulatorError if it leaves anything behind.
    """
    running = LocalEmulator.start(state_dir, *options, environment=environment, python=python)
    try:
        yield running
    finally:
        left = running.stop()
    if left:
        raise EmulatorError(f"the emulator left behind: {', '.join(left)}")


@contextlib.contextmanager
def in_process(
    state_dir: Path, account: str = ACCOUNT_ID, region: str = REGION, **options: Any
) -> Iterator[Emulator]:
    """An emulator in this process for the time of a block; `options` are those of
    `shoal_local.server.Options`.

    Raises EmulatorError if there is one already: moto, which keeps most of what an emulator knows,
    has one state for the whole process. It is empty before and after.
    """
    from moto.core.base_backend import BackendDict
    from moto.core.model_instances import reset_model_data

    from shoal_local.server import Emulator, Options  # moto reads the environment on import

    if not _in_process.acquire(blocking=False):
        raise EmulatorError(
            "there is an emulator in this process already; end it first, or start this one in a"
            " process of its own with shoal_local.testing.emulator"
        )
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        running = Emulator(Options(state_dir, account, region, **options))
        running.start()
        try:
            yield running
        finally:
            running.close()
            BackendDict.reset()
            reset_model_data()
    finally:
        _in_process.release()


def root_variables(endpoint: str) -> dict[str, str]:
    """Return the variables with the credentials of the first account's root, for an emulator that
    this process has started; none for another endpoint.
    """
    if endpoint not in _state_dirs:
        return {}
    state = State(_state_dirs[endpoint])
    root = root_of(str((state.description() or {})["account"]), state.secret())
    return {
        "AWS_ACCESS_KEY_ID": root.access_key_id,
        "AWS_SECRET_ACCESS_KEY": root.secret_access_key,
    }


def clean_up(state_dir: Path) -> None:
    """Run `python -m shoal_local down`, which removes what an emulator that crashed has left."""
    command = [sys.executable, "-m", "shoal_local", "down", "--state-dir", str(state_dir)]
    subprocess.run(command, check=True, capture_output=True)


def processes_with(text: str, without: Collection[int] = ()) -> list[str]:
    """Return the processes on this machine that have `text` in their command line or environment,
    other than this one and `without`.
    """
    processes, pattern = [], re.compile(re.escape(text.encode()) + rb"(?!\w)")
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        if pid in {os.getpid(), *without} or started_at(pid) is None:
            continue
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            if pattern.search(command + bytes(1) + (folder / "environ").read_bytes()):
                start = command[:120].replace(bytes(1), b" ").decode(errors="replace")
                processes.append(f"process {pid} {start}")
    return processes


def listener(endpoint: str) -> list[str]:
    """Return the endpoint's port, if somebody listens there."""
    port = urlsplit(endpoint).port or 0
    with socket.socket() as probe:
        probe.settimeout(2)
        return [f"port {port}"] if probe.connect_ex(("127.0.0.1", port)) == 0 else []
