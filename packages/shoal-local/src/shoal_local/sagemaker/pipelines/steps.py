"""Runs each type of step: calls the API with the pipeline's role, and returns what Get reads of the
step.
"""

import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

import boto3
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.context import RoleCredentials
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting.endpoints import IN_PROGRESS
from shoal_local.sagemaker.jobs.base.jobs import RUNNING
from shoal_local.sagemaker.jobs.tuning_jobs import training_summaries
from shoal_local.sagemaker.pipelines.definition import CREATED, Step
from shoal_local.sagemaker.pipelines.expressions import entries
from shoal_local.sagemaker.pipelines.records import (
    Callback,
    ExecutionRecord,
    StepFailedError,
    StepStoppedError,
    values_of,
)
from shoal_local.sagemaker.resources import Kind
from shoal_local.sagemaker.shapes import Document, shape_errors, structure

_MAX_NAME = 63
_MAX_TUNING_NAME = 32


@dataclass(frozen=True)
class Runner:
    """Runs steps of one execution.

    What a step has created is in its record before the step ends, once it could be described.
    """

    core: Core
    record: ExecutionRecord
    execution_arn: str
    credentials: RoleCredentials
    stop: Event

    @property
    def execution_id(self) -> str:
        return self.record.name.rpartition("/")[2]

    def run(self, step: Step, arguments: Document, failures: int = 0) -> Document:
        """Run a step after some failures and return what Get reads of it; raise StepFailedError or
        StepStoppedError.
        """
        if step.type == "Lambda":
            return self._lambda(step, arguments)
        if step.type == "Callback":
            return self._callback(step, arguments)
        kind = CREATED[step.type]
        name = self._name(kind, step, arguments, failures)
        match step.type:
            case "Training" | "Processing" | "Transform":
                return self._job(kind, name, step, arguments)
            case "Tuning":
                return self._tuning(kind, name, step, arguments)
            case "Endpoint":
                return self._endpoint(kind, step, arguments)
            case "RegisterModel":
                name = ""
            case "EndpointConfig":
                # "an execution-unique name suffix" (sagemaker-python-sdk pull request 6224)
                name = _named(str(arguments.get(kind.name_key, step.name)))
        return self._create(kind, name, step, arguments)

    def _name(self, kind: Kind, step: Step, arguments: Document, failures: int) -> str:
        """Return the name of what the step creates.

        A name in its arguments is a prefix, `<name>-<execution>-<token>-<failures>`
        (sagemaker-python-sdk, issue 3946; the SDK's `use_custom_job_prefix`). A tuning job's own
        name has the form in a public repository's S3 URIs.
        """
        is_tuning = step.type == "Tuning"
        max_length = _MAX_TUNING_NAME if is_tuning else _MAX_NAME
        if prefix := arguments.get(kind.name_key):
            end = f"-{self.execution_id}-{names.suffix()}-{failures}"
            return _named(str(prefix), max_length, end)
        start = "" if is_tuning else "pipelines-"
        return _named(f"{start}{self.execution_id}-{step.name.replace('_', '-')}", max_length)

    def _call(self, operation: str, **request: Any) -> Document:
        """Call the SageMaker API with the pipeline's role; a refusal is the step's failure."""
        client = self.core.context.clients("sagemaker", self.credentials)
        failure = f"ClientError: Failed to invoke sagemaker:{operation}. Error Details:"
        try:
            answer = getattr(client, xform_name(operation))(**request)
        except ClientError as refusal:
            error, metadata = refusal.response["Error"], refusal.response["ResponseMetadata"]
            # the message alone does not say it
            code = f" ({error['Code']})" if error["Code"].startswith("AccessDenied") else ""
            cause = _cause(error["Code"], metadata.get("HTTPStatusCode", 400))
            raise StepFailedError(f"{failure} {error['Message']}{code}", cause) from refusal
        except BotoCoreError as refusal:
            raise StepFailedError(f"{failure} {refusal}") from refusal
        answer.pop("ResponseMetadata", None)
        return dict(json.loads(json.dumps(answer, default=str)))

    def _create(self, kind: Kind, name: str, step: Step, arguments: Document) -> Document:
        """Create a resource that is there at once; `name` is "" for one that has its own."""
        named = {kind.name_key: name} if name else {}
        arn = self._call(f"Create{kind.noun}", **(arguments | named))[kind.arn_key]
        described = self._call(f"Describe{kind.noun}", **{kind.name_key: name or arn})
        self.record.report(step, {step.type: {"Arn": arn}})
        return described

    def _tuning(self, kind: Kind, name: str, step: Step, arguments: Document) -> Document:
        """Run a tuning job; its training jobs can be read too, the best first (SDK: top_k)."""
        job = self._job(kind, name, step, arguments)
        summaries = training_summaries(self.core, job)
        return job | {"TrainingJobSummaries": json.loads(json.dumps(summaries, default=str))}

    def _job(self, kind: Kind, name: str, step: Step, arguments: Document) -> Document:
        """Run a job with its own tags and those that the service adds (seen on training jobs)."""
        added = {
            "sagemaker:pipeline-execution-arn": self.execution_arn,
            "sagemaker:pipeline-step-name": step.name,
        }
        tags = [{"Key": key, "Value": value} for key, value in added.items()]
        request = {kind.name_key: name, "Tags": [*arguments.get("Tags", []), *tags]}
        answer = self._call(f"Create{kind.noun}", **(arguments | request))
        noun = "TuningJob" if step.type == "Tuning" else kind.noun
        self.record.report(step, {noun: {"Arn": answer[kind.arn_key]}})
        wait = self._wait(kind, name, RUNNING)
        if not wait(self.stop.is_set):
            self._stop_job(kind, name)
            wait()
        job = self._call(f"Describe{kind.noun}", **{kind.name_key: name})
        status = job[kind.status_key]
        if status == "Completed":
            return job
        if status == "Stopped" and self.stop.is_set():
            raise StepStoppedError
        stopped = f"The job was stopped ({job.get('SecondaryStatus', status)})."
        reason = job.get("FailureReason") or stopped
        raise StepFailedError(reason, _job_cause(reason))

    def _wait(self, kind: Kind, name: str, statuses: Collection[str]) -> Callable[..., bool]:
        """Return what waits until a resource has none of the statuses (see `Store.wait`)."""

        def pending(document: Document) -> bool:
            return document[kind.status_key] in statuses

        return partial(self.core.store.wait, kind.store, name, pending)

    def _stop_job(self, kind: Kind, name: str) -> None:
        try:
            self._call(f"Stop{kind.noun}", **{kind.name_key: name})
        except StepFailedError as error:
            if "in status" not in str(error):  # it may have ended just now
                raise

    def _endpoint(self, kind: Kind, step: Step, arguments: Document) -> Document:
        """Call CreateEndpoint, or UpdateEndpoint if the name exists; then wait for InService."""
        name = arguments["EndpointName"]
        exists = self.core.store.get(kind.store, name) is not None
        request = {key: value for key, value in arguments.items() if not (exists and key == "Tags")}
        answer = self._call("UpdateEndpoint" if exists else "CreateEndpoint", **request)
        self.record.report(step, {"Endpoint": {"Arn": answer["EndpointArn"]}})
        if not self._wait(kind, name, IN_PROGRESS)(self.stop.is_set):
            raise StepStoppedError
        endpoint = self._call("DescribeEndpoint", EndpointName=name)
        if endpoint["EndpointStatus"] != "InService" or "FailureReason" in endpoint:
            is_now = f"The endpoint is {endpoint['EndpointStatus']}."
            raise StepFailedError(endpoint.get("FailureReason", is_now))
        return endpoint

    def _lambda(self, step: Step, arguments: Document) -> Document:
        """Invoke the function, which no stop interrupts, and take its OutputParameters."""
        function = step.document["FunctionArn"]
        shown: Document = {"Arn": function, "OutputParameters": []}
        self.record.report(step, {"Lambda": shown})
        payload = self._invoke(function, arguments)
        declared = [each["OutputName"] for each in step.document.get("OutputParameters", [])]
        fields = payload if isinstance(payload, dict) else {}
        if missing_names := [name for name in declared if name not in fields]:
            raise StepFailedError(
                f"ClientError: The function's answer lacks the OutputParameters {missing_names}:"
                f" {json.dumps(payload)[:300]}"
            )
        values = {name: fields[name] for name in declared}
        outputs = entries(values)
        for each in outputs:
            if list(shape_errors(structure("OutputParameter"), each, "")):
                raise StepFailedError(
                    f"ClientError: The OutputParameter {each['Name']} of the function's answer is"
                    f" one that a step cannot report, of {len(each['Value'])} characters"
                )
        self.record.report(step, {"Lambda": shown | {"OutputParameters": outputs}})
        return {"OutputParameters": values}

    def _callback(self, step: Step, arguments: Document) -> Document:
        """Send a token to the queue, with the pipeline's role, and wait until it is answered."""
        url, sqs = step.document["SqsQueueUrl"], self.core.context.clients("sqs", self.credentials)
        callback = Callback(self.core, sqs, url, self.execution_arn, arguments)
        shown: Document = {"CallbackToken": callback.token, "SqsQueueUrl": url}
        self.record.report(step, {"Callback": shown | {"OutputParameters": []}})
        answer = callback.answer(self.stop)
        values = values_of(answer, step.document.get("OutputParameters", []))
        if self.stop.is_set():
            raise StepStoppedError
        declared = entries({name: answer[name] for name in values})
        self.record.report(step, {"Callback": shown | {"OutputParameters": declared}})
        return {"OutputParameters": values}

    def _invoke(self, function: str, arguments: Document) -> Any:
        limit_s = self.core.settings.lambda_step_s
        began_at = time.monotonic()
        try:
            answer = self._lambda_client(limit_s).invoke(
                FunctionName=function, Payload=json.dumps(arguments).encode()
            )
            payload = json.loads(answer["Payload"].read() or b"null")
        except (ClientError, BotoCoreError) as error:
            message = f"Failed to invoke lambda:InvokeFunction. Error Details: {error}"
            if time.monotonic() - began_at >= limit_s:
                message = f"The function did not answer within {limit_s:g} s; it keeps running"
            raise StepFailedError(f"ClientError: {message}") from error
        if answer.get("FunctionError"):
            details = str(payload)
            if isinstance(payload, dict):
                details = f"{payload.get('errorType')}: {payload.get('errorMessage')}"
            raise StepFailedError(f"ClientError: Lambda function {function} failed. {details}")
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


def _named(start: str, max_length: int = _MAX_NAME, end: str = "") -> str:
    """Return a name that ends with what nothing else has, cut to the length that it may have."""
    end = end or f"-{names.suffix()}"
    return start[: max_length - len(end)].rstrip("-") + end


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
