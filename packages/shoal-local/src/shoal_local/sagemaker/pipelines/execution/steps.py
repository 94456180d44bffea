"""Runs each type of step: calls the API with the pipeline's role, and returns what Get reads of the
step.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.context import RoleCredentials
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting import endpoints
from shoal_local.sagemaker.jobs.base.job import PROCESSING, TRAINING, TRANSFORM, TUNING, Kind
from shoal_local.sagemaker.jobs.tuning.tuning import training_summaries
from shoal_local.sagemaker.pipelines.definition.definition import Step
from shoal_local.sagemaker.pipelines.execution.callbacks import (
    Callback,
    CallbackFailedError,
    values_of,
)
from shoal_local.sagemaker.shapes import Document, shape_errors, shape_for

_MAX_JOB_NAME = 63
_MAX_TUNING_NAME = 32
_MAX_CONFIG_NAME = 63
_METADATA = {TUNING: "TuningJob"}
_CHECK_STOP_S = 0.2


class StepFailedError(Exception):
    """A step failed.

    `str()` is its FailureReason, `cause` what retry policies name, `metadata` what was created
    before.
    """

    def __init__(self, reason: str, cause: str = "", metadata: Document | None = None) -> None:
        super().__init__(reason)
        self.cause = cause
        self.metadata = metadata or {}


class StepStoppedError(Exception):
    """The execution was stopped, and with it this step."""

    def __init__(self, metadata: Document | None = None) -> None:
        super().__init__("stopped")
        self.metadata = metadata or {}


@dataclass(frozen=True)
class StepResult:
    """A step that succeeded: what Get reads of it, its Metadata in ListPipelineExecutionSteps, and
    what its entry says of the cache.
    """

    outputs: Document
    metadata: Document
    cache: Document = field(default_factory=dict)


@dataclass(frozen=True)
class Runner:
    """Runs steps of one execution.

    `report(metadata)` publishes what a step has created while it still runs.
    """

    core: Core
    execution_arn: str
    execution_id: str
    credentials: RoleCredentials
    stop: Event

    def run(
        self, step: Step, arguments: Document, report: Callable[[Document], None]
    ) -> StepResult:
        """Run a step and return its result; raise StepFailedError or StepStoppedError."""
        runners: Mapping[
            str, Callable[[Step, Document, Callable[[Document], None]], StepResult]
        ] = {
            "Training": lambda *each: self._job(TRAINING, *each),
            "Processing": lambda *each: self._job(PROCESSING, *each),
            "Transform": lambda *each: self._job(TRANSFORM, *each),
            "Tuning": self._tuning,
            "Model": self._model,
            "RegisterModel": self._register,
            "EndpointConfig": self._endpoint_config,
            "Endpoint": self._endpoint,
            "Lambda": self._lambda,
            "Callback": self._callback,
        }
        return runners[step.type](step, arguments, report)

    @property
    def _sagemaker(self) -> Any:
        return self.core.context.clients("sagemaker", self.credentials)

    def _call(self, operation: str, **request: Any) -> Document:
        """Call the SageMaker API with the pipeline's role; a refusal is the step's failure."""
        method = "".join(
            f"_{letter.lower()}" if letter.isupper() else letter for letter in operation
        ).lstrip("_")
        try:
            answer = getattr(self._sagemaker, method)(**request)
        except ClientError as refusal:
            error, status = (
                refusal.response["Error"],
                refusal.response["ResponseMetadata"].get("HTTPStatusCode", 400),
            )
            code = (
                f" ({error['Code']})" if error["Code"].startswith("AccessDenied") else ""
            )  # the message alone does not say it
            reason = (
                f"ClientError: Failed to invoke sagemaker:{operation}. Error Details:"
                f" {error['Message']}{code}"
            )
            raise StepFailedError(reason, _cause(error["Code"], status)) from refusal
        except BotoCoreError as refusal:
            raise StepFailedError(
                f"ClientError: Failed to invoke sagemaker:{operation}. Error Details: {refusal}"
            ) from refusal
        answer.pop("ResponseMetadata", None)
        return dict(json.loads(json.dumps(answer, default=str)))

    def _name(self, step: Step) -> str:
        """Return `pipelines-<execution id>-<step>-<suffix>`, with the step's name cut if it is too
        long.
        """
        end = f"-{names.suffix()}"
        start = f"pipelines-{self.execution_id}-{step.name.replace('_', '-')}"
        return start[: _MAX_JOB_NAME - len(end)].rstrip("-") + end

    def _tuning_name(self, step: Step) -> str:
        """Return `<execution id>-<step>-<suffix>`, the form in a public repository's S3 URIs."""
        end = f"-{names.suffix()}"
        start = f"{self.execution_id}-{step.name.replace('_', '-')}"
        return start[: _MAX_TUNING_NAME - len(end)].rstrip("-") + end

    def _tuning(
        self, step: Step, arguments: Document, report: Callable[[Document], None]
    ) -> StepResult:
        """Run a tuning job; its training jobs can be read too, the best first (SDK: top_k)."""
        result = self._job(TUNING, step, arguments, report, self._tuning_name(step))
        summaries = training_summaries(self.core, result.outputs)
        shown = json.loads(json.dumps(summaries, default=str))
        return StepResult(result.outputs | {"TrainingJobSummaries": shown}, result.metadata)

    def _tags(self, arguments: Document, step: Step) -> list[Document]:
        """Return the job's own tags and those that the service adds (seen on training jobs)."""
        added = {
            "sagemaker:pipeline-execution-arn": self.execution_arn,
            "sagemaker:pipeline-step-name": step.name,
        }
        return [
            *arguments.get("Tags", []),
            *({"Key": key, "Value": value} for key, value in added.items()),
        ]

    def _job(
        self,
        kind: Kind,
        step: Step,
        arguments: Document,
        report: Callable[[Document], None],
        name: str = "",
    ) -> StepResult:
        name_key, name = f"{kind.prefix}Name", name or self._name(step)
        answer = self._call(
            f"Create{kind.prefix}",
            **(arguments | {name_key: name, "Tags": self._tags(arguments, step)}),
        )
        metadata = {_METADATA.get(kind, kind.prefix): {"Arn": answer[f"{kind.prefix}Arn"]}}
        report(metadata)
        self._wait_for_job(kind, name_key, name)
        job = self._call(f"Describe{kind.prefix}", **{name_key: name})
        status = job[f"{kind.prefix}Status"]
        if status == "Completed":
            return StepResult(job, metadata)
        if status == "Stopped" and self.stop.is_set():
            raise StepStoppedError(metadata)
        reason = (
            job.get("FailureReason")
            or f"The job was stopped ({job.get('SecondaryStatus', status)})."
        )
        raise StepFailedError(reason, _job_cause(reason), metadata)

    def _wait_for_job(self, kind: Kind, name_key: str, name: str) -> None:
        stopping = False
        while True:
            try:
                self.core.store.wait(
                    kind.store,
                    name,
                    lambda job: job is None or job[f"{kind.prefix}Status"] in _END_STATUSES,
                    _CHECK_STOP_S,
                )
            except TimeoutError:
                if self.stop.is_set() and not stopping:
                    stopping = True
                    self._stop_job(kind, name_key, name)
                continue
            return

    def _stop_job(self, kind: Kind, name_key: str, name: str) -> None:
        try:
            self._call(f"Stop{kind.prefix}", **{name_key: name})
        except StepFailedError as error:
            if "in status" not in str(error):  # it may have ended just now
                raise

    def _model(
        self, step: Step, arguments: Document, _report: Callable[[Document], None]
    ) -> StepResult:
        name = self._name(step)
        answer = self._call("CreateModel", **(arguments | {"ModelName": name}))
        return StepResult(
            self._call("DescribeModel", ModelName=name), {"Model": {"Arn": answer["ModelArn"]}}
        )

    def _register(
        self, step: Step, arguments: Document, _report: Callable[[Document], None]
    ) -> StepResult:
        answer = self._call("CreateModelPackage", **arguments)
        package = self._call("DescribeModelPackage", ModelPackageName=answer["ModelPackageArn"])
        return StepResult(package, {"RegisterModel": {"Arn": answer["ModelPackageArn"]}})

    def _endpoint_config(
        self, step: Step, arguments: Document, _report: Callable[[Document], None]
    ) -> StepResult:
        # "an execution-unique name suffix" (sagemaker-python-sdk pull request 6224)
        end = f"-{names.suffix()}"
        name = (
            str(arguments.get("EndpointConfigName", step.name))[: _MAX_CONFIG_NAME - len(end)] + end
        )
        answer = self._call("CreateEndpointConfig", **(arguments | {"EndpointConfigName": name}))
        config = self._call("DescribeEndpointConfig", EndpointConfigName=name)
        return StepResult(config, {"EndpointConfig": {"Arn": answer["EndpointConfigArn"]}})

    def _endpoint(
        self, step: Step, arguments: Document, report: Callable[[Document], None]
    ) -> StepResult:
        """Call CreateEndpoint, or UpdateEndpoint if the name exists; then wait for InService."""
        name = arguments["EndpointName"]
        exists = self.core.store.get(endpoints.KIND, name) is not None
        request = {key: value for key, value in arguments.items() if not (exists and key == "Tags")}
        answer = self._call("UpdateEndpoint" if exists else "CreateEndpoint", **request)
        metadata = {"Endpoint": {"Arn": answer["EndpointArn"]}}
        report(metadata)
        self._wait_for_endpoint(name, metadata)
        endpoint = self._call("DescribeEndpoint", EndpointName=name)
        if endpoint["EndpointStatus"] != "InService" or "FailureReason" in endpoint:
            raise StepFailedError(
                endpoint.get("FailureReason", f"The endpoint is {endpoint['EndpointStatus']}."),
                "",
                metadata,
            )
        return StepResult(endpoint, metadata)

    def _wait_for_endpoint(self, name: str, metadata: Document) -> None:
        while not self.stop.is_set():
            try:
                self.core.store.wait(
                    endpoints.KIND,
                    name,
                    lambda each: each is None or each["EndpointStatus"] in _STABLE_STATUSES,
                    _CHECK_STOP_S,
                )
            except TimeoutError:
                continue
            return
        raise StepStoppedError(metadata)

    def _lambda(
        self, step: Step, arguments: Document, _report: Callable[[Document], None]
    ) -> StepResult:
        """Invoke the function and take its OutputParameters.

        A stop does not interrupt a running function.
        """
        function = step.document["FunctionArn"]
        payload = self._invoke(function, arguments)
        output_parameters = step.document.get("OutputParameters", [])
        missing_names = [
            each["OutputName"]
            for each in output_parameters
            if not isinstance(payload, dict) or each["OutputName"] not in payload
        ]
        if missing_names:
            raise StepFailedError(
                f"ClientError: The function's answer lacks the OutputParameters {missing_names}:"
                f" {json.dumps(payload)[:300]}"
            )
        values = {each["OutputName"]: payload[each["OutputName"]] for each in output_parameters}
        entries = [
            {"Name": name, "Value": value if isinstance(value, str) else json.dumps(value)}
            for name, value in values.items()
        ]
        if any(list(shape_errors(shape_for("OutputParameter"), each, "")) for each in entries):
            raise StepFailedError(
                "ClientError: The function's answer has OutputParameters that a step cannot report,"
                f" of {[len(each['Value']) for each in entries]} characters"
            )
        return StepResult(
            {"OutputParameters": values}, {"Lambda": {"Arn": function, "OutputParameters": entries}}
        )

    def _callback(
        self, step: Step, arguments: Document, report: Callable[[Document], None]
    ) -> StepResult:
        """Send a token to the queue, with the pipeline's role, and wait until it is answered."""
        url, sqs = step.document["SqsQueueUrl"], self.core.context.clients("sqs", self.credentials)
        callback = Callback.begun(self.core, sqs, url, self.execution_arn)
        shown: Document = {"CallbackToken": callback.token, "SqsQueueUrl": url}
        metadata = {"Callback": {**shown, "OutputParameters": []}}
        try:
            callback.send(arguments, "Executing")
            report(metadata)
            answer = callback.wait(arguments, self.stop)
            values = values_of(answer, step.document.get("OutputParameters", []))
        except CallbackFailedError as error:
            raise StepFailedError(str(error), "", metadata) from error
        if self.stop.is_set():
            raise StepStoppedError(metadata)
        shown["OutputParameters"] = [{"Name": name, "Value": answer[name]} for name in values]
        return StepResult({"OutputParameters": values}, {"Callback": shown})

    def _invoke(self, function: str, arguments: Document) -> Any:
        limit_s = self.core.settings.lambda_step_s
        began_at = time.monotonic()
        metadata = {"Lambda": {"Arn": function, "OutputParameters": []}}
        try:
            answer = self._lambda_client(limit_s).invoke(
                FunctionName=function, Payload=json.dumps(arguments).encode()
            )
            payload = json.loads(answer["Payload"].read() or b"null")
        except (ClientError, BotoCoreError) as error:
            message = f"Failed to invoke lambda:InvokeFunction. Error Details: {error}"
            if time.monotonic() - began_at >= limit_s:
                message = f"The function did not answer within {limit_s:g} s; it keeps running"
            raise StepFailedError(f"ClientError: {message}", "", metadata) from error
        if answer.get("FunctionError"):
            details = (
                f"{payload.get('errorType')}: {payload.get('errorMessage')}"
                if isinstance(payload, dict)
                else str(payload)
            )
            raise StepFailedError(
                f"ClientError: Lambda function {function} failed. {details}", "", metadata
            )
        return payload

    def _lambda_client(self, limit_s: float) -> Any:
        """Return a client that waits as long as a step may take and never invokes twice."""
        return boto3.client(
            "lambda",
            region_name=self.core.context.region,
            endpoint_url=self.core.context.endpoint_url(),
            aws_access_key_id=self.credentials.access_key_id,
            aws_secret_access_key=self.credentials.secret_access_key,
            aws_session_token=self.credentials.session_token,
            config=Config(read_timeout=limit_s, retries={"total_max_attempts": 1}),
        )


_END_STATUSES = {"Completed", "Failed", "Stopped"}
_STABLE_STATUSES = {"InService", "Failed", "OutOfService", "UpdateRollbackFailed"}


def _cause(code: str, status: int) -> str:
    if code.startswith("Throttl"):
        return "Step.THROTTLING"
    if code == "ResourceLimitExceeded":
        return "SageMaker.RESOURCE_LIMIT"
    return "Step.SERVICE_FAULT" if status >= 500 else ""


def _job_cause(reason: str) -> str:
    if reason.startswith("InternalServerError"):
        return "SageMaker.JOB_INTERNAL_ERROR"
    return "SageMaker.CAPACITY_ERROR" if reason.startswith("CapacityError") else ""
