"""The process of a Lambda function: reads invocations as JSON lines from one pipe and answers on
another.

`sandbox` starts it with the function's environment. It imports the standard library only, because
the function sees whatever is imported here. The function's output goes to stdout; a line that no
function prints by accident marks the end of an invocation.
"""

import importlib
import json
import logging
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

MARK = "\x00end-of-invocation"


class Context:
    """The second argument of a handler."""

    function_version = "$LATEST"
    identity = None
    client_context = None

    def __init__(self, invocation: dict[str, Any]) -> None:
        self.aws_request_id: str = invocation["request_id"]
        self.invoked_function_arn: str = invocation["function_arn"]
        self._deadline_ms: int = invocation["deadline_ms"]
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]

    def get_remaining_time_in_millis(self) -> int:
        return max(self._deadline_ms - int(time.time() * 1000), 0)


class RequestId(logging.Filter):
    """Gives log records the id of the invocation that wrote them."""

    current = "-"

    def filter(self, record: logging.LogRecord) -> bool:
        record.aws_request_id = self.current
        return True


def show_log_records(request_id: RequestId) -> None:
    """Give the root logger a handler, as Lambda's runtime does, so that `logging.info` shows."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        logging.Formatter(
            "[%(levelname)s]\t%(asctime)s.%(msecs)03dZ\t%(aws_request_id)s\t%(message)s",
            "%Y-%m-%dT%H:%M:%S",
        )
    )
    handler.addFilter(request_id)
    logging.getLogger().addHandler(handler)


def load(handler: str) -> Callable[[Any, Context], Any]:
    """Return the callable that `module.function` names (slashes separate folders, as in Lambda)."""
    module_name, _, attribute = handler.rpartition(".")
    module = importlib.import_module(module_name.replace("/", "."))
    loaded: Callable[[Any, Context], Any] = getattr(module, attribute)
    return loaded


def load_error(handler: str, error: BaseException) -> dict[str, Any]:
    """Return Lambda's answer when a handler cannot be loaded."""
    module_name, _, attribute = handler.rpartition(".")
    if isinstance(error, ImportError):
        return failure(
            "Runtime.ImportModuleError", f"Unable to import module '{module_name}': {error}", []
        )
    if isinstance(error, AttributeError):
        return failure(
            "Runtime.HandlerNotFound",
            f"Handler '{attribute}' missing on module '{module_name}'",
            [],
        )
    return described(error)


def failure(kind: str, message: str, stack: list[str]) -> dict[str, Any]:
    return {"errorMessage": message, "errorType": kind, "stackTrace": stack}


def described(error: BaseException) -> dict[str, Any]:
    """Return the error of a handler, with the function's own frames only."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__
    ]
    return failure(type(error).__name__, str(error), traceback.format_list(frames))


def report(error: dict[str, Any]) -> None:
    """Print an error as Lambda's runtime does, so that it is in the function's log."""
    lines = "".join(error["stackTrace"])
    print(
        f"[ERROR] {error['errorType']}: {error['errorMessage']}"
        + (f"\nTraceback (most recent call last):\n{lines}" if lines else "")
    )


def run(handler: Callable[[Any, Context], Any], invocation: dict[str, Any]) -> dict[str, Any]:
    """Call the handler and return the outcome as a message."""
    try:
        payload = handler(invocation["event"], Context(invocation))
    except Exception as error:  # noqa: BLE001 - whatever a function raises is its answer
        return {"error": described(error)}
    try:
        return {"payload": json.dumps(payload)}
    except (TypeError, ValueError) as error:
        return {
            "error": failure("Runtime.MarshalError", f"Unable to marshal response: {error}", [])
        }


def max_memory_kib() -> int:
    """Return the maximum resident memory of this program.

    On Linux ru_maxrss also counts the emulator, from which the process was forked.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - functions should not find pathlib imported
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    except (FileNotFoundError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (
            1024 if sys.platform == "darwin" else 1
        )


def main(requests_fd: int, answers_fd: int) -> None:
    """Load the handler, say so, and answer every line until the pipe closes."""
    sys.path.insert(0, os.environ["LAMBDA_TASK_ROOT"])
    request_id = RequestId()
    show_log_records(request_id)
    load_failure: dict[str, Any] | None = None
    handler: Callable[[Any, Context], Any] | None = None
    try:
        handler = load(os.environ["_HANDLER"])
    except Exception as error:  # noqa: BLE001 - a function that cannot be loaded answers every invocation with why
        load_failure = load_error(os.environ["_HANDLER"], error)
    with (
        os.fdopen(requests_fd, encoding="utf-8") as requests,
        os.fdopen(answers_fd, "w", encoding="utf-8") as answers,
    ):
        print(json.dumps({"ready": True}), file=answers, flush=True)
        for line in requests:
            invocation = json.loads(line)
            request_id.current = invocation["request_id"]
            outcome: dict[str, Any] = (
                run(handler, invocation) if handler else {"error": load_failure}
            )
            if "error" in outcome:
                report(outcome["error"])
            outcome |= {"max_memory_kib": max_memory_kib(), "request_id": request_id.current}
            sys.stderr.flush()
            print(f"{MARK} {invocation['request_id']}", flush=True)
            print(json.dumps(outcome), file=answers, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
