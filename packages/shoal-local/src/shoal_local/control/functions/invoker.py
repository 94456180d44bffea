"""Invoke Lambda functions, in warm processes with the credentials of the function's role.

Logs go to CloudWatch Logs; asynchronous invocations are retried. Unlike on AWS, memory is reported
but not limited, and there is no network isolation.
"""

import contextlib
import logging
import shutil
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.context import RoleCredentials
from shoal_local.control.functions.model import Function
from shoal_local.control.functions.sandbox import Outcome, Sandbox
from shoal_local.control.identity.identity import Clients, Identity
from shoal_local.errors import AwsError
from shoal_local.faults import Faults, Rule
from shoal_local.processes import ProcessRegistry

LAMBDA = "lambda.amazonaws.com"
PYTHON_PATH = "/usr/local/bin:/usr/bin:/bin"
MAX_IDLE = 2
MAX_THREADS = 16
# AWS waits one and then two minutes; a person at a terminal should not.
RETRY_DELAYS_S = (1.0, 2.0)

log = logging.getLogger(__name__)


@dataclass
class Environment:
    """A warm process of one revision of a function, with its log stream and credentials."""

    revision: str
    sandbox: Sandbox
    credentials: RoleCredentials
    stream: str
    home: Path
    stream_made: bool = False

    def stop(self) -> None:
        """End the process and delete its home folder."""
        self.sandbox.stop()
        shutil.rmtree(self.home, ignore_errors=True)


@dataclass
class Invoker:
    """An account's invocations and their processes; `close` kills all and allows no more."""

    identity: Identity
    clients: Clients
    registry: ProcessRegistry
    folder: Path
    faults: Faults = field(default_factory=Faults)
    _idle: dict[str, list[Environment]] = field(default_factory=dict)
    _running: dict[int, Environment] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _deleted: set[str] = field(default_factory=set)
    _closing: threading.Event = field(default_factory=threading.Event)
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(MAX_THREADS, "lambda")
    )

    def invoke(self, function: Function, event: Any) -> Outcome:
        """Run one synchronous invocation; raise AwsError when the function's role cannot be
        assumed, or when the emulator is stopping.
        """
        rule = self.faults.take("function", function.name, event)
        if rule is not None and rule.do == "refuse":
            self.faults.happened(rule, function.name)
            raise rule.refusal()
        request_id = str(uuid.uuid4())
        environment = self._acquire(function)
        try:
            invocation = {"request_id": request_id, "function_arn": function.arn, "event": event}
            with self._with_fault(function.name, environment, rule):
                outcome = environment.sandbox.invoke(invocation, function.timeout_s)
        finally:
            self._release(function, environment)
        text = log_text(function, request_id, outcome)
        self._write_log(function, environment, text)
        return replace(outcome, log=text)

    @contextlib.contextmanager
    def _with_fault(self, name: str, environment: Environment, rule: Rule | None) -> Iterator[None]:
        """Kill or freeze the process a while after the invocation began, if a fault says so."""
        if rule is None:
            yield
            return

        def strike() -> None:
            self.faults.happened(rule, name)
            environment.sandbox.kill(signal.SIGKILL if rule.do == "kill" else signal.SIGSTOP)

        timer = threading.Timer(rule.seconds, strike)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def invoke_later(self, function: Callable[[], Function], event: Any) -> Future[str]:
        """Invoke asynchronously, with two retries.

        The result is "" at the end, or the reason when all attempts failed.
        """
        return self._pool.submit(self._invoke_with_retries, function, event)

    def discard(self, name: str, deleted: bool = False) -> None:
        """Stop the idle processes of a function that was changed or deleted."""
        with self._lock:
            if deleted:
                self._deleted.add(name)
            idle = self._idle.pop(name, [])
        for environment in idle:
            environment.stop()

    def close(self) -> None:
        """Kill every process; invocations under way end as lost."""
        self._closing.set()
        with self._lock:
            running = list(self._running.values())
            names = list(self._idle)
        for environment in running:
            environment.sandbox.kill()
        for name in names:
            self.discard(name)
        self._pool.shutdown(wait=True, cancel_futures=True)
        for name in list(self._idle):
            self.discard(name)

    def _invoke_with_retries(self, function: Callable[[], Function], event: Any) -> str:
        reason = ""
        for delay_s in (0.0, *RETRY_DELAYS_S):
            if self._closing.wait(delay_s):
                return "the emulator is stopping"
            try:
                outcome = self.invoke(function(), event)
            except Exception as error:  # noqa: BLE001 - every error is the reason of a failed attempt
                reason = str(error)
            else:
                if outcome.error is None:
                    return ""
                reason = error_text(outcome)
            log.warning("asynchronous invocation failed: %s", reason)
        return reason

    def _acquire(self, function: Function) -> Environment:
        environment = self._warm(function) or self._start(function)
        with self._lock:
            if not self._closing.is_set():
                self._running[id(environment)] = environment
                return environment
        environment.stop()
        raise AwsError("ServiceException", "the emulator is stopping", 500)

    def _warm(self, function: Function) -> Environment | None:
        with self._lock:
            idle = self._idle.get(function.name, [])
            while idle:
                environment = idle.pop()
                if environment.revision == function.revision and environment.sandbox.alive():
                    return environment
                environment.stop()
        return None

    def _release(self, function: Function, environment: Environment) -> None:
        with self._lock:
            self._running.pop(id(environment), None)
            idle = self._idle.setdefault(function.name, [])
            has_room = len(idle) < MAX_IDLE and not self._closing.is_set()
            is_fit = has_room and environment.sandbox.alive()
            if is_fit:
                idle.append(environment)
        if not is_fit:
            environment.stop()

    def _start(self, function: Function) -> Environment:
        self._deleted.discard(function.name)
        credentials = self.identity.service_credentials(
            function.settings["Role"], function.name, LAMBDA
        )
        stream = f"{datetime.now(UTC):%Y/%m/%d}/[$LATEST]{uuid.uuid4().hex}"
        homes = self.folder / "tmp"
        homes.mkdir(parents=True, exist_ok=True)
        home = Path(tempfile.mkdtemp(prefix=f"{function.name}-", dir=homes))
        variables = self._variables(function, credentials, stream, home)
        what = f"lambda {function.name}"
        try:
            runtime = function.settings["Runtime"]
            sandbox = Sandbox(function.code.folder, variables, self.registry, what, runtime)
        except OSError:
            shutil.rmtree(home, ignore_errors=True)
            raise
        return Environment(function.revision, sandbox, credentials, stream, home)

    def _variables(
        self, function: Function, credentials: RoleCredentials, stream: str, home: Path
    ) -> dict[str, str]:
        region = self.clients.region
        return {
            "PATH": PYTHON_PATH,
            "LANG": "C.UTF-8",
            "TZ": ":UTC",
            "HOME": str(home),
            "TMPDIR": str(home),
            "PYTHONDONTWRITEBYTECODE": "1",
            # AwsCustomResource calls npm, and does without where that fails
            "NPM_CONFIG_OFFLINE": "true",
            "NPM_CONFIG_CACHE": str(home),
            **function.settings.get("Environment", {}).get("Variables", {}),
            "LAMBDA_TASK_ROOT": str(function.code.folder),
            "_HANDLER": function.settings["Handler"],
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.settings['Runtime']}",
            "AWS_LAMBDA_FUNCTION_NAME": function.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
            "AWS_LAMBDA_LOG_GROUP_NAME": function.log_group,
            "AWS_LAMBDA_LOG_STREAM_NAME": stream,
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_ACCESS_KEY_ID": credentials.access_key_id,
            "AWS_SECRET_ACCESS_KEY": credentials.secret_access_key,
            "AWS_SESSION_TOKEN": credentials.session_token,
            "AWS_ENDPOINT_URL": self.clients.endpoint_url(),
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def _write_log(self, function: Function, environment: Environment, text: str) -> None:
        """Write the log as the function's role.

        As on AWS, a role that may not write logs leaves none, and the invocation succeeds.
        """
        logs = self.clients("logs", environment.credentials)
        now_ms = int(time.time() * 1000)
        events = [{"timestamp": now_ms, "message": line} for line in text.splitlines() if line]
        try:
            if not environment.stream_made and function.name in self._deleted:
                return  # AWS would create the log group again, and nobody would delete it
            if not environment.stream_made:
                make_stream(logs, function.log_group, environment.stream)
                environment.stream_made = True
            logs.put_log_events(
                logGroupName=function.log_group, logStreamName=environment.stream, logEvents=events
            )
        except (ClientError, BotoCoreError) as error:
            log.warning("log of %s not written: %s", function.name, error)


def make_stream(logs: Any, group: str, stream: str) -> None:
    """Create the log stream, and the group only where it is missing.

    A role needs no permission to create a group that exists.
    """
    try:
        logs.create_log_stream(logGroupName=group, logStreamName=stream)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "ResourceNotFoundException":
            with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):
                logs.create_log_group(logGroupName=group)
            logs.create_log_stream(logGroupName=group, logStreamName=stream)
        elif code != "ResourceAlreadyExistsException":
            raise


def log_text(function: Function, request_id: str, outcome: Outcome) -> str:
    """Return the log of one invocation, with the lines that Lambda itself writes."""
    body = outcome.log if not outcome.log or outcome.log.endswith("\n") else outcome.log + "\n"
    return (
        f"START RequestId: {request_id} Version: $LATEST\n{body}END RequestId: {request_id}\nREPORT"
        f" RequestId: {request_id}\tDuration: {outcome.duration_ms:.2f} ms\tBilled Duration:"
        f" {int(outcome.duration_ms) + 1} ms\tMemory Size: {function.memory_mb} MB\tMax Memory"
        f" Used: {outcome.max_memory_mb} MB\n"
    )


def error_text(outcome: Outcome) -> str:
    """Return `errorType: errorMessage` of a failed invocation."""
    error = outcome.error or {}
    return f"{error.get('errorType')}: {error.get('errorMessage')}"
