"""Runs one execution: ready steps in threads, until none is left."""

import json
import math
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shoal_local.context import RoleCredentials
from shoal_local.processes import in_thread
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.jobs.base import storage
from shoal_local.sagemaker.pipelines.definition import Definition, Step
from shoal_local.sagemaker.pipelines.expressions import ExpressionError, Scope, holds
from shoal_local.sagemaker.pipelines.records import (
    ExecutionRecord,
    StepFailedError,
    StepStoppedError,
    iso,
)
from shoal_local.sagemaker.pipelines.steps import Runner
from shoal_local.sagemaker.shapes import Document, fitting

END_STATUSES = {"Succeeded", "Failed", "Stopped"}
_STATUSES_OF_TRIGGER: Mapping[str, set[str]] = {
    "Completed": {"Succeeded"},
    "Failed": {"Failed"},
    "Stopped": {"Stopped"},
    "Any": END_STATUSES,
}


def ready_steps(
    steps: Mapping[str, Step],
    statuses: Mapping[str, str],
    outputs: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """Return the steps that may start, in the definition's order.

    A step may start if its branch was chosen and its upstream steps ended as their triggers say. If
    an upstream step never starts, it never starts either, whatever the trigger (AWS documents no
    other rule).
    """
    return [
        name
        for name, step in steps.items()
        if name not in statuses
        and (
            step.branch is None or outputs.get(step.branch[0], {}).get("Outcome") is step.branch[1]
        )
        and all(
            statuses.get(upstream) in _STATUSES_OF_TRIGGER[trigger]
            for upstream, trigger in step.dependencies
        )
    ]


def final_status(steps: Mapping[str, Step], statuses: Mapping[str, str], stopped: bool) -> str:
    """Return the execution's final status.

    CompletedWithFailures: every step that failed was followed by one that ran because of the
    failure (SDK v3's step_dependency).
    """
    if stopped:
        return "Stopped"
    failed = {name for name, status in statuses.items() if status == "Failed"}
    if not failed:
        return "Stopped" if "Stopped" in statuses.values() else "Succeeded"
    handled = {
        upstream
        for name, step in steps.items()
        if name in statuses
        for upstream, trigger in step.dependencies
        if trigger in {"Failed", "Any"} and upstream in failed
    }
    return (
        "CompletedWithFailures"
        if failed == handled and not any(steps[name].type == "Fail" for name in failed)
        else "Failed"
    )


_DEFAULTS: Document = {"IntervalSeconds": 1, "BackoffRate": 2.0, "MaxAttempts": 5, "used": 0}
_AUTOMATIC = ("Step.SERVICE_FAULT", "Step.THROTTLING")
"""The service tries again by itself after these, unless a policy says otherwise (dg
pipelines-retry-policy); how often, it does not say.
"""


class Retries:
    """Counts the attempts of each policy (dg pipelines-retry-policy).

    A policy ends with MaxAttempts or ExpireAfterMin, whose clock runs `speed` times as fast as
    ours; its pause grows by BackoffRate.
    """

    def __init__(self, policies: Sequence[Document], speed: float = 1.0) -> None:
        self._speed = speed
        named = {cause for policy in policies for cause in policy["ExceptionType"]}
        automatic = {"ExceptionType": [cause for cause in _AUTOMATIC if cause not in named]}
        self._policies = [_DEFAULTS | policy for policy in (*policies, automatic)]
        self._began_at = time.monotonic()
        self.attempts = 1

    def pause_s(self, cause: str) -> float | None:
        """Return the seconds until another attempt after `cause`; None if no policy allows one."""
        for policy in self._policies:
            if cause in policy["ExceptionType"] and self._is_left(policy):
                pause_s = policy["IntervalSeconds"] * policy["BackoffRate"] ** policy["used"]
                policy["used"] += 1
                self.attempts += 1
                return float(pause_s)
        return None

    def _is_left(self, policy: Document) -> bool:
        if "ExpireAfterMin" in policy:
            passed_s = (time.monotonic() - self._began_at) * self._speed
            return passed_s < float(policy["ExpireAfterMin"]) * 60
        return bool(policy["used"] < policy["MaxAttempts"])


_FAILED = "Step failure: One or multiple steps failed."


class Execution:
    """Drives one execution in a thread of its own, with a thread for each running step."""

    def __init__(
        self,
        core: Core,
        name: str,
        definition: Definition,
        values: Mapping[str, Any],
        credentials: RoleCredentials,
    ) -> None:
        self._core, self._definition = core, definition
        self.record = ExecutionRecord(core, name)
        document = self.record.document()
        self._stop = threading.Event()
        self._runner = Runner(
            core, self.record, document["PipelineExecutionArn"], credentials, self._stop
        )
        self._max_parallel = document.get("ParallelismConfiguration", {}).get(
            "MaxParallelExecutionSteps", len(definition.steps)
        )
        self._changed = threading.Condition()
        self._statuses: dict[str, str] = {}
        self._outputs: dict[str, Document] = {}
        self._scope = Scope(
            values,
            self._variable,
            self._outputs.__getitem__,
            self._property_file,
            lambda uri: self._json_at(uri, "The object"),
        )
        self._no_more = False

    def start(self, ended: Callable[[], None]) -> None:
        """Begin, in a thread, which calls `ended` last."""
        self._thread = in_thread(f"pipeline {self.record.name}", self._run, ended)

    def stop(self) -> None:
        """Start nothing new and stop running jobs (StopPipelineExecution); return at once."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self, ended: Callable[[], None]) -> None:
        try:
            self._drive()
            status = final_status(self._definition.steps, self._statuses, self._stop.is_set())
            self.record.set_status(
                status, _FAILED if status in {"Failed", "CompletedWithFailures"} else ""
            )
        except Exception:  # noqa: BLE001 (an execution must never stay Executing; the reason carries the bug)
            self.record.set_status(
                "Failed", f"InternalServerError: {traceback.format_exc(limit=-3)}"
            )
        finally:
            ended()

    def _drive(self) -> None:
        with self._changed:
            while True:
                self._start_ready()
                if "Executing" not in self._statuses.values():
                    return
                self._changed.wait()

    def _start_ready(self) -> None:
        if self._stop.is_set() or self._no_more:
            return
        for name in ready_steps(self._definition.steps, self._statuses, self._outputs):
            if list(self._statuses.values()).count("Executing") >= self._max_parallel:
                return
            self._statuses[name] = "Executing"
            step = self._definition.steps[name]
            in_thread(f"step {name}", self._run_step, step)

    def _run_step(self, step: Step) -> None:
        status, reason = "Failed", ""
        try:
            self.record.set_step(step, "Starting")
            self.record.set_step(step, "Executing")
            self._outputs[step.name] = self._attempts(step)
            status = "Succeeded"
        except StepStoppedError:
            status = "Stopped"
        except StepFailedError as error:
            reason = str(error)
        except ExpressionError as error:
            reason = f"ClientError: {error}"
        except Exception:  # noqa: BLE001 (a step must never stay Executing; the reason carries the bug)
            reason = f"InternalServerError: {traceback.format_exc(limit=-3)}"
        finally:
            self._end_step(step, status, {"FailureReason": reason} if reason else {})

    def _end_step(self, step: Step, status: str, changes: Document) -> None:
        self.record.set_step(step, status, **changes)
        with self._changed:
            self._statuses[step.name] = status
            self._no_more = self._no_more or step.type == "Fail"
            self._changed.notify_all()

    def _attempts(self, step: Step) -> Document:
        """Run a step, and again as its retry policies say."""
        speed = self._core.settings.hosting_speed
        retries = Retries(step.document.get("RetryPolicies", []), speed)
        while True:
            try:
                return self._attempt(step, retries.attempts - 1)
            except StepFailedError as error:
                pause_s = retries.pause_s(error.cause)
                if pause_s is None or self._stop.wait(pause_s / speed):
                    raise
                self.record.set_step(step, "Executing", AttemptCount=retries.attempts)

    def _attempt(self, step: Step, failures: int) -> Document:
        if step.type == "Condition":
            return self._condition(step)
        arguments = self._scope.resolve(step.arguments)
        if step.type == "Fail":
            message = str(arguments["ErrorMessage"])
            shown = fitting("FailStepMetadata", "ErrorMessage", message)
            self.record.report(step, {"Fail": {"ErrorMessage": shown}})
            raise StepFailedError(message)
        targets = {
            key: self._scope.resolve(step.document[key])
            for key in ("FunctionArn", "SqsQueueUrl")
            if key in step.document
        }
        resolved = replace(step, document=step.document | targets)
        return self._runner.run(resolved, arguments, failures)

    def _condition(self, step: Step) -> Document:
        outcome = all(holds(each, self._scope.resolve) for each in step.arguments["Conditions"])
        self.record.report(step, {"Condition": {"Outcome": str(outcome)}})
        return {"Outcome": outcome}

    def _variable(self, name: str) -> str:
        document = self.record.document()
        values = {
            "PipelineExecutionId": self._runner.execution_id,
            "PipelineName": document["_pipeline"],
            "PipelineArn": document["PipelineArn"],
            "PipelineExecutionArn": document["PipelineExecutionArn"],
            "StartDateTime": iso(document["CreationTime"]),
            "CurrentDateTime": iso(time.time()),
        }
        return str(values[name])

    def _property_file(self, step_name: str, name: str) -> Any:
        """Return the JSON that a Processing step left in S3, read with the pipeline's role."""
        declaration = self._definition.steps[step_name].property_files[name]
        outputs = self._outputs[step_name]["ProcessingOutputConfig"]["Outputs"]
        matches = [each for each in outputs if each["OutputName"] == declaration["OutputName"]]
        if not matches:
            raise ExpressionError(
                f"Property file {name}: step {step_name} has no output {declaration['OutputName']}"
            )
        uri = storage.join_uri(matches[0]["S3Output"]["S3Uri"], declaration["FilePath"])
        return self._json_at(uri, f"Property file {name} at")

    def _json_at(self, uri: str, what: str) -> Any:
        """Return the JSON of an object, read with the pipeline's role."""
        s3 = self._core.context.clients("s3", self._runner.credentials)
        try:
            bucket, key = storage.split_uri(uri)
            content = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
            return json.loads(content, parse_constant=_finite, parse_float=_finite)
        except (ValueError, RecursionError) as error:  # no JSON, no text, or nested without end
            raise ExpressionError(f"{what} {uri} is not JSON: {error}") from error
        except (*storage.S3_FAILURES, storage.DataError) as error:
            raise ExpressionError(f"{what} {uri} could not be read: {error}") from error


def _finite(text: str) -> float:
    """Return a number of JSON, which has neither NaN nor Infinity. Raise ValueError for others."""
    if math.isfinite(number := float(text)):
        return number
    raise ValueError(f"{text[:40]} is no finite number")
