"""Asynchronous inference: requests wait in a queue, their input comes from S3, and the answer goes
to S3, with a notification.

Sources: API reference, InvokeEndpointAsync and AsyncInferenceConfig; developer guide, "Check
prediction results"; notifications and names of objects that people published. How AWS words a
failure is known for answers of the model only; other words are ours.
"""

from __future__ import annotations

import http.client
import json
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.errors import AwsError
from shoal_local.sagemaker import measurements
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid, not_emulated
from shoal_local.sagemaker.hosting.fleet import Fleet, Instance, Variant
from shoal_local.sagemaker.hosting.server import Answer
from shoal_local.sagemaker.hosting.traffic import Traffic
from shoal_local.sagemaker.jobs import storage
from shoal_local.sagemaker.jobs.storage import DataError, split_uri
from shoal_local.sagemaker.references import check_keys
from shoal_local.sagemaker.shapes import Document

CONFIG = "AsyncInferenceConfig"
_HEADER = "x-amzn-sagemaker-"
_REFUSED = ("filename", "s3outputpathextension")
_TTL_S, _TIMEOUT_S = (60, 21_600), (1, 3_600)
"""The smallest and largest values; the largest TTL is the default."""
_DEFAULT_TIMEOUT_S = 900
_CONCURRENT = 1
"""Of an instance, where the configuration leaves it to SageMaker."""
_MAX_INPUT_BYTES = 1024**3
_FAILURES = (DataError, AwsError, ClientError, BotoCoreError)

_log = logging.getLogger(__name__)


def check_config(core: Core, request: Document) -> None:
    """Raise ValidationException for an AsyncInferenceConfig that cannot be, or is not emulated."""
    config = request.get(CONFIG)
    if config is None:
        return
    output = config["OutputConfig"]
    notification = output.get("NotificationConfig", {})
    if notification.get("IncludeInferenceResponseIn"):
        raise not_emulated(f"{CONFIG}.OutputConfig.NotificationConfig.IncludeInferenceResponseIn")
    if "S3OutputPath" not in output:
        raise not_emulated(f"{CONFIG}.OutputConfig without S3OutputPath")
    if len(request["ProductionVariants"]) > 1:
        raise not_emulated(f"{CONFIG} of several production variants")
    if any(each.get("ServerlessConfig") for each in request["ProductionVariants"]):
        raise not_emulated(f"{CONFIG} of a variant with a ServerlessConfig")
    for path in ("S3OutputPath", "S3FailurePath"):
        try:
            split_uri(output.get(path, output["S3OutputPath"]))
        except DataError as error:
            raise invalid(f"{CONFIG}.OutputConfig.{path}: {error}") from error
    check_keys(core, output.get("KmsKeyId"))


@dataclass(frozen=True)
class _Request:
    """What waits: where its input is and its results will be, and how long it may take."""

    inference_id: str
    input: str
    output: str
    failure: str | None
    headers: Mapping[str, str]
    received_at: float
    expires_at: float
    timeout_s: float


class AsyncInference:
    """The queue of one endpoint, in the order in which requests came.

    A request is sent as soon as an instance has fewer than its maximum at once.
    """

    def __init__(self, core: Core, endpoint: str, traffic: Traffic) -> None:
        self._core, self._endpoint, self._traffic = core, endpoint, traffic
        self._waiting: deque[tuple[_Request, Document]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(
        self, config: Document, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """Queue a request; return status, headers and body of InvokeEndpointAsync's answer.

        Raise ValidationError for what it cannot be.
        """
        if body:
            raise _invalid("The Shoal emulator does not emulate a Body; give an InputLocation.")
        for name in _REFUSED:
            if headers.get(_HEADER + name):
                raise _invalid(f"The Shoal emulator does not emulate the header {_HEADER}{name}.")
        request = _request(config[CONFIG]["OutputConfig"], headers)
        with self._changed:
            self._waiting.append((request, config))
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_all, name="async", daemon=True)
                self._thread.start()
        places = {
            "X-Amzn-SageMaker-OutputLocation": request.output,
            "X-Amzn-SageMaker-FailureLocation": request.failure,
        }
        answer = json.dumps({"InferenceId": request.inference_id}).encode()
        found = {name: place for name, place in places.items() if place}
        return http.client.ACCEPTED, {"Content-Type": "application/json", **found}, answer

    def close(self) -> None:
        """Forget what waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _send_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting)
                if self._closed:
                    return
                request, config = self._waiting.popleft()
            client = config[CONFIG].get("ClientConfig", {})
            instance = ExitStack()
            try:
                acquired = instance.enter_context(
                    self._traffic.acquire_free(
                        client.get("MaxConcurrentInvocationsPerInstance", _CONCURRENT)
                    )
                )
            except AwsError:  # the endpoint is being deleted
                return
            run = _Run(self._core, self._endpoint, request, config, acquired, instance.close)
            threading.Thread(target=run, name="async invocation", daemon=True).start()


@dataclass(frozen=True)
class _Run:
    """One request on the instance that it got; `release` gives that back."""

    core: Core
    endpoint: str
    request: _Request
    config: Document
    acquired: tuple[Fleet, Variant, Instance]
    release: Callable[[], None]

    def __call__(self) -> None:
        try:
            self._run()
        except _FAILURES:
            _log.exception("the result of an asynchronous invocation was lost")
        finally:
            self.release()

    def _run(self) -> None:
        fleet, variant, instance = self.acquired
        role = str(variant.model["ExecutionRoleArn"])
        credentials = self.core.context.role_credentials(role, f"SageMaker-{self.endpoint}"[:64])
        s3 = self.core.context.clients("s3", credentials)
        sns = self.core.context.clients("sns", credentials)
        answer, reason = None, ""
        try:
            answer, reason = self._answer(s3, fleet, variant, instance)
        except _FAILURES as error:
            reason = f"ClientError: {error}"
        if answer is not None and not reason:
            self._put(s3, self.request.output, answer.body)
            self._notify(sns, "SuccessTopic", answer.content_type, self.request.output, reason)
            return
        body = answer.body if answer else reason.encode()
        if self.request.failure:
            self._put(s3, self.request.failure, body)
        kind = answer.content_type if answer else "text/plain"
        self._notify(sns, "ErrorTopic", kind, self.request.failure, reason)

    def _answer(
        self, s3: Any, fleet: Fleet, variant: Variant, instance: Instance
    ) -> tuple[Answer | None, str]:
        """Return the model's answer, if there is one, and why it is a failure, if it is one."""
        if time.time() > self.request.expires_at:
            return None, "ClientError: The request was longer in the queue than its TTL."
        bucket, key = split_uri(self.request.input)
        found = s3.get_object(Bucket=bucket, Key=key)
        if found["ContentLength"] > _MAX_INPUT_BYTES:
            return None, f"ClientError: The input is larger than {_MAX_INPUT_BYTES} bytes."
        body = found["Body"].read()
        started_at = time.monotonic()
        try:
            answer = instance.server.invoke(body, self.request.headers, self.request.timeout_s)
        except (OSError, http.client.HTTPException) as error:
            self._measure(fleet, variant, 500, started_at)
            return None, f"ClientError: Your model container did not answer: {error!r}"
        self._measure(fleet, variant, answer.status, started_at)
        if answer.status < http.client.BAD_REQUEST:
            return answer, ""
        side = "server" if answer.status >= 500 else "client"
        return answer, (
            f"ClientError: Received {side} error ({answer.status}) from model. See the SageMaker"
            " Endpoint logs in your account for more information."
        )

    def _measure(self, fleet: Fleet, variant: Variant, status: int, started_at: float) -> None:
        seconds = time.monotonic() - started_at
        self.core.measure(
            measurements.of_request(self.endpoint, fleet.config_name, variant.name, status, seconds)
        )

    def _put(self, s3: Any, uri: str, body: bytes) -> None:
        bucket, key = split_uri(uri)
        key_id = self.config[CONFIG]["OutputConfig"].get("KmsKeyId")
        encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key_id} if key_id else {}
        s3.put_object(Bucket=bucket, Key=key, Body=body, **encryption)

    def _notify(
        self, sns: Any, topic: str, content_type: str, place: str | None, reason: str
    ) -> None:
        topics = self.config[CONFIG]["OutputConfig"].get("NotificationConfig", {})
        if topic not in topics:
            return
        parameters = {"accept": "accept", "contentType": "content-type"}
        sent = self.request.headers
        message = {
            "awsRegion": self.core.context.region,
            "eventTime": _instant(time.time()),
            "receivedTime": _instant(self.request.received_at),
            "invocationStatus": "Failed" if reason else "Completed",
            **({"failureReason": reason} if reason else {}),
            "requestParameters": {
                **{name: sent[key] for name, key in parameters.items() if key in sent},
                "endpointName": self.endpoint,
                "inputLocation": self.request.input,
            },
            **(
                {"responseParameters": {"contentType": content_type, "outputLocation": place}}
                if place
                else {}
            ),
            "inferenceId": self.request.inference_id,
            "eventVersion": "1.0",
            "eventSource": "aws:sagemaker",
            "eventName": "InferenceResult",
        }
        sns.publish(TopicArn=topics[topic], Message=json.dumps(message))


def _request(output: Document, headers: Mapping[str, str]) -> _Request:
    source = headers.get(f"{_HEADER}inputlocation", "")
    try:
        split_uri(source)
    except DataError as error:
        raise _invalid(f"InputLocation: {error}") from error
    now, name = time.time(), str(uuid.uuid4())
    failure = output.get("S3FailurePath")
    forwarded = {
        name: headers[_HEADER + name]
        for name in ("content-type", "accept")
        if _HEADER + name in headers
    }
    custom = f"{_HEADER}custom-attributes"
    if custom in headers:
        forwarded[custom] = headers[custom]
    return _Request(
        headers.get(f"{_HEADER}inference-id") or str(uuid.uuid4()),
        source,
        storage.join_uri(output["S3OutputPath"], f"{name}.out"),
        storage.join_uri(failure, f"{name}-error.out") if failure else None,
        forwarded,
        now,
        now + _seconds(headers, "requestttlseconds", *_TTL_S, _TTL_S[1]),
        _seconds(headers, "invocationtimeoutseconds", *_TIMEOUT_S, _DEFAULT_TIMEOUT_S),
    )


def _seconds(headers: Mapping[str, str], name: str, min_s: int, max_s: int, otherwise: int) -> int:
    text = headers.get(_HEADER + name)
    if text is None:
        return otherwise
    if not text.isdecimal() or not min_s <= int(text) <= max_s:
        raise _invalid(
            f"{_HEADER}{name} must be a whole number from {min_s} to {max_s}, not {text}"
        )
    return int(text)


def _instant(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _invalid(message: str) -> AwsError:
    """Return the error of the runtime API for a request that it refuses."""
    return AwsError("ValidationError", message)
