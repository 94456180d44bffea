"""Batch transform jobs: a request to the model's server per object or per batch of lines, one after
the other, and the answers in S3 as `<object>.out`.

Sources: API reference, CreateTransformJob, TransformInput, TransformOutput and ModelClientConfig;
developer guide, "Use your own inference code with batch transform" and "Troubleshooting".
"""

import http.client
import io
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from botocore import xform_name

from shoal_local.sagemaker import names
from shoal_local.sagemaker.errors import not_emulated
from shoal_local.sagemaker.hosting.models import Models
from shoal_local.sagemaker.hosting.server import ModelServer, ServerFailedError
from shoal_local.sagemaker.jobs.base import storage
from shoal_local.sagemaker.jobs.base.jobs import TRANSFORM, Job, JobFailedError, JobRun, Jobs
from shoal_local.sagemaker.jobs.base.storage import DataError
from shoal_local.sagemaker.resources import assume, check_keys, check_network
from shoal_local.sagemaker.shapes import Document

_MAX_PAYLOAD_MB = 6
_MAX_RETRIES = 3
_TIMEOUT_S = 600
_VARIABLES = {
    "MaxPayloadInMB": "SAGEMAKER_MAX_PAYLOAD_IN_MB",
    "MaxConcurrentTransforms": "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS",
    "BatchStrategy": "SAGEMAKER_BATCH_STRATEGY",
}
_SHOWN = 300


class TransformJobs(Jobs):
    """The batch transform jobs of the account."""

    kind = TRANSFORM

    def create(self, request: Document) -> Document:
        kind, accept = request["TransformInput"], request["TransformOutput"]
        is_csv = kind.get("ContentType") == accept.get("Accept") == "text/csv"
        if _joins(request) and not is_csv:
            raise not_emulated("CreateTransformJob.DataProcessing.JoinSource without text/csv")
        model = Models(self._core).find(request["ModelName"])
        assume(self._core, model["ExecutionRoleArn"], request["TransformJobName"])
        check_network(self._core, model.get("VpcConfig"))
        volume_key = request["TransformResources"].get("VolumeKmsKeyId")
        check_keys(self._core, request["TransformOutput"].get("KmsKeyId"), volume_key)
        job = self._keep_job(request)
        return self._start(TransformRun(job, model), job)


class TransformRun(JobRun):
    """Sends every object of the input to the model."""

    def __init__(self, job: Job, model: Document) -> None:
        super().__init__(job, "transform")
        self._model = model
        self._server = _TransformServer(job, self._request, model)

    def _lifecycle(self) -> None:
        """Transform every object; one that fails keeps no other from its result."""
        context = self._job.core.context
        self._job.check_capacity()
        self._paths.make()
        role = self._model["ExecutionRoleArn"]
        credentials = context.role_credentials(role, f"SageMaker-{self._job.name}"[:64])
        s3 = context.clients("s3", credentials)
        uri = self._request["TransformInput"]["DataSource"]["S3DataSource"]["S3Uri"]
        keys = storage.keys_below(s3, uri)
        if not keys:
            raise DataError(storage.no_objects_message(s3, uri, role))
        # from here on AWS bills, also while the container starts (DescribeTransformJob)
        self._job.change(lambda document: document.update(TransformStartTime=names.now()))
        with closing(self._server):
            try:
                self._server.start()
            except ServerFailedError as error:
                self._job.check_not_stopped()
                raise JobFailedError(f"AlgorithmError: {error}") from error
            failures = [reason for key in keys if (reason := self._failure_of(s3, uri, key))]
        if failures:
            count = f"{len(failures)} of {len(keys)} objects failed; the first"
            raise JobFailedError(f"AlgorithmError: {count}: {failures[0]}")

    def _failure_of(self, s3: Any, uri: str, key: str) -> str:
        """Return why there is no result of this object; nothing if there is one."""
        bucket, prefix = storage.split_uri(uri)
        source, result = self._paths.upload / "in", self._paths.upload / "out"
        storage.fetch_object(s3, bucket, key, source)
        try:
            self._transform(source, result)
        except _InvocationError as error:
            self._server.log_data(f"{bucket}/{key}: {error}")
            return f"{key}: {error}"
        output = self._request["TransformOutput"]
        name = f"{storage.relative_key(key, prefix)}.out"
        target = storage.join_uri(output["S3OutputPath"], name)
        storage.put_file(s3, result, target, output.get("KmsKeyId", ""))
        return ""

    def _transform(self, source: Path, result: Path) -> None:
        """Write the model's answers into `result`, in the order of the input."""
        end = b"\n" if self._request["TransformOutput"].get("AssembleWith") == "Line" else b""
        with source.open("rb") as content, result.open("wb") as file:
            for payload in payloads(self._request, content):
                answer = self._answer(payload)
                if _joins(self._request):
                    answer = joined(payload, answer)
                file.writelines((answer, end))

    def _answer(self, payload: bytes) -> bytes:
        client = self._request.get("ModelClientConfig", {})
        headers = {
            "Content-Type": self._request["TransformInput"].get("ContentType", ""),
            "Accept": self._request["TransformOutput"].get("Accept", ""),
        }
        sent = {key: value for key, value in headers.items() if value}
        limit_s = client.get("InvocationsTimeoutInSeconds", _TIMEOUT_S)
        reason = ""
        for _ in range(1 + client.get("InvocationsMaxRetries", _MAX_RETRIES)):
            self._job.check_not_stopped()
            try:
                with self._server.invoke(payload, sent, limit_s) as answer:
                    body = answer.body()
            except (OSError, http.client.HTTPException) as error:
                reason = f"the model did not answer: {error!r}"
                continue
            if answer.status == http.client.OK:
                return body
            text = body.decode(errors="replace")[:_SHOWN]
            reason = f"Bad HTTP status received from algorithm: {answer.status}: {text}"
        raise _InvocationError(reason)


class _InvocationError(Exception):
    """An object has no result; `str()` says why."""


class _TransformServer(ModelServer):
    """The model's server, with a transform job's log, variables and use of the role."""

    def __init__(self, job: Job, request: Document, model: Document) -> None:
        super().__init__(job.core, job.name, {"VariantName": "transform"}, model)
        self._created_by = "transform-job", {**model, **request}
        self._log_place = job.kind.log_group, job.name
        self._variables = _variables(request)
        self._closing = job.stop  # a stop ends the wait for the container, too

    def log_data(self, line: str) -> None:
        """Write into the stream `data-log`, which says what became of objects."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
        if self._log:
            self._log.write(f"{self._host}/data-log", f"{at}:[sagemaker logs]: {line}")


def _variables(request: Document) -> dict[str, str]:
    """Return the job's own, and those of AWS; what the request leaves out is not passed."""
    values = {
        name: xform_name(str(request[key])).upper()
        for key, name in _VARIABLES.items()
        if key in request
    }
    return {**request.get("Environment", {}), "SAGEMAKER_BATCH": "true", **values}


def _joins(request: Document) -> bool:
    return bool(request.get("DataProcessing", {}).get("JoinSource") == "Input")


def joined(payload: bytes, answer: bytes) -> bytes:
    """Return each row of CSV with its answer behind it (API reference, DataProcessing)."""
    rows, answers = payload.splitlines(), answer.splitlines()
    if len(rows) != len(answers):
        raise _InvocationError(f"{len(answers)} answers cannot be joined with {len(rows)} rows")
    return b"\n".join(map(b",".join, zip(rows, answers, strict=True)))


def payloads(request: Document, content: BinaryIO) -> Iterator[bytes]:
    """Yield bodies: the whole object, or as many lines as one may hold; a limit of 0 is none."""
    max_mb = request.get("MaxPayloadInMB", _MAX_PAYLOAD_MB)
    max_bytes = max_mb * 1024**2 or sys.maxsize
    if request["TransformInput"].get("SplitType", "None") != "Line":
        size_bytes = content.seek(0, io.SEEK_END)
        _check_size(size_bytes, max_bytes, max_mb)
        content.seek(0)
        yield content.read()
        return
    single = request.get("BatchStrategy") == "SingleRecord"
    batch = bytearray()
    for line in content:
        _check_size(len(line), max_bytes, max_mb)
        if batch and (single or len(batch) + len(line) > max_bytes):
            yield bytes(batch)
            batch.clear()
        batch += line
    if batch:
        yield bytes(batch)


def _check_size(size_bytes: int, max_bytes: int, max_mb: int) -> None:
    if size_bytes > max_bytes:
        raise _InvocationError(f"a record has {size_bytes} bytes; MaxPayloadInMB is {max_mb}")
