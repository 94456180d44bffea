"""Starts an execution of the pipeline when a schedule is due or a manifest arrives, unless one
runs: no two use the same GPUs at once.

EventBridge Scheduler sends `schedule`, `schedule_arn`, `scheduled_time` and `parameters` (name ->
text); S3 sends its event `Object Created` of a manifest. The answer is `status` (started, overlap
or duplicate) and the `execution` that was started or is in the way. Safe to run twice for the same
scheduled time, and for the same version of a manifest.

A manifest is `datasets/NAME/<file>` in the data bucket: JSON with `files`, paths relative to its
own folder. It is uploaded last, so it says that the dataset is complete. That is verified here: a
missing or empty file makes the manifest wrong.
"""

import hashlib
import json
import logging
import os
import re
from dataclasses import asdict, dataclass
from typing import Any, Literal

import boto3
from botocore.config import Config

RUNNING = ("Executing", "Stopping")
MAX_BYTES = 1024 * 1024
ORIGIN = "(manifest)"
_KEY = re.compile(r"^datasets/[A-Za-z0-9][A-Za-z0-9._-]*/([A-Za-z0-9][A-Za-z0-9._-]*)\Z")
CLIENT = Config(
    connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5}
)
"""By default one read that is never answered takes all of the function's minute."""

log = logging.getLogger()
log.setLevel(logging.INFO)


class ManifestError(Exception):
    """A manifest is wrong.

    Trying again does not help; it is raised so that the function's alarm rings.
    """


@dataclass(frozen=True)
class StartRequest:
    """What one delivery asks to be started."""

    origin: str
    """Dimension of the measurements: the schedule's name, or that it was a manifest."""
    token: str
    """The same for every delivery of one occasion, and for no other."""
    name: str
    """Display name of the execution, by which a second delivery is recognised: letters, digits and
    hyphens, at most 82.
    """
    cause: str
    """In words, for the execution's description and the log."""
    parameters: dict[str, str]


@dataclass(frozen=True)
class Outcome:
    """What became of one delivery."""

    status: Literal["started", "overlap", "duplicate"]
    execution: str
    """ARN of the execution that runs for it, or in its way."""

    def __str__(self) -> str:
        return {
            "started": f"started {self.execution}",
            "overlap": f"started nothing, because {self.execution} runs",
            "duplicate": f"started nothing, because {self.execution} was started for it already",
        }[self.status]


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one delivery.

    A refusal of AWS is raised: Lambda tries twice more, and the token keeps that from starting two.
    """
    request = (
        of_manifest(boto3.client("s3", config=CLIENT), event)
        if event.get("source") == "aws.s3"
        else of_schedule(event)
    )
    outcome = start(boto3.client("sagemaker", config=CLIENT), request)
    log.info("%s: %s", request.cause, outcome)
    _publish(boto3.client("cloudwatch", config=CLIENT), request.origin, outcome)
    return asdict(outcome)


def of_schedule(event: dict[str, Any]) -> StartRequest:
    """Return what a schedule requests."""
    schedule, due = event["schedule"], event["scheduled_time"]
    return StartRequest(
        origin=schedule,
        token=hashlib.sha256(f"{event['schedule_arn']} {due}".encode()).hexdigest(),
        name=f"{schedule}-{re.sub('[^0-9A-Za-z]', '', due)}",
        cause=f"the schedule {schedule}, due at {due}",
        parameters=event["parameters"],
    )


def of_manifest(s3: Any, event: dict[str, Any]) -> StartRequest:
    """Return what the manifest requests.

    Raises ManifestError where it is malformed or names a file that is missing or empty.
    """
    bucket, arrived = event["detail"]["bucket"]["name"], event["detail"]["object"]
    key, version = arrived["key"], arrived.get("version-id") or arrived["etag"]
    uri = f"s3://{bucket}/{key}"
    match = _KEY.match(key)
    if bucket != os.environ["DATA_BUCKET"] or not match or match[1] != os.environ["MANIFEST_FILE"]:
        raise ManifestError(
            f"{uri} is no manifest: they are s3://{os.environ['DATA_BUCKET']}/datasets/NAME/{os.environ['MANIFEST_FILE']}"
        )
    folder = key.rpartition("/")[0]
    files = _files(s3, bucket, key, arrived, uri)
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{folder}/")
    sizes = {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", [])}
    if missing := sorted(file for file in files if not sizes.get(f"{folder}/{file}")):
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        missing_files = ", ".join(missing[:3]) + more
        raise ManifestError(f"{uri} names files that are not there or empty: {missing_files}")
    identity = hashlib.sha256(f"{uri} {version}".encode()).hexdigest()
    return StartRequest(
        origin=ORIGIN,
        token=identity,
        name=f"manifest-{identity[:24]}",
        cause=f"{uri}, version {version}",
        parameters={
            name: value.replace("{manifest}", uri).replace("{folder}", f"s3://{bucket}/{folder}")
            for name, value in json.loads(os.environ["MANIFEST_PARAMETERS"]).items()
        },
    )


def _files(s3: Any, bucket: str, key: str, arrived: dict[str, Any], uri: str) -> list[str]:
    if arrived["size"] > MAX_BYTES:
        raise ManifestError(
            f"{uri} has {arrived['size']} bytes; a manifest has at most {MAX_BYTES}"
        )
    version = {"VersionId": arrived["version-id"]} if arrived.get("version-id") else {}
    try:
        document = json.loads(s3.get_object(Bucket=bucket, Key=key, **version)["Body"].read())
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{uri} is no JSON: {error}") from error
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(files, list) or not files or not all(_is_path(each) for each in files):
        raise ManifestError(f"{uri} has no `files`, a list of paths below its own folder")
    return files


def _is_path(value: Any) -> bool:
    return (
        isinstance(value, str)
        and value != ""
        and not value.startswith("/")
        and ".." not in value.split("/")
    )


def start(sagemaker: Any, request: StartRequest) -> Outcome:
    """Start an execution, unless one runs or was started for this request already."""
    pipeline = os.environ["PIPELINE_NAME"]
    executions = _executions(sagemaker, pipeline)
    duplicates = [
        each for each in executions if each.get("PipelineExecutionDisplayName") == request.name
    ]
    if duplicates:
        arn, status = (duplicates[0][f"PipelineExecution{key}"] for key in ("Arn", "Status"))
        # The delivery that started it may have been cut off before it looked again.
        older = _stop_if_second(sagemaker, executions, arn) if status == "Executing" else None
        return Outcome("overlap", older) if older else Outcome("duplicate", arn)
    running = _oldest_running(executions)
    if running:
        return Outcome("overlap", running)
    answer = sagemaker.start_pipeline_execution(
        PipelineName=pipeline,
        PipelineExecutionDisplayName=request.name,
        PipelineExecutionDescription=f"Started by {request.cause}",
        PipelineParameters=[
            {"Name": key, "Value": value} for key, value in request.parameters.items()
        ],
        ClientRequestToken=request.token,
    )
    arn = str(answer["PipelineExecutionArn"])
    older = _stop_if_second(sagemaker, _executions(sagemaker, pipeline), arn)
    return Outcome("overlap", older) if older else Outcome("started", arn)


def _stop_if_second(sagemaker: Any, executions: list[dict[str, Any]], arn: str) -> str | None:
    """Stop the new execution if another caller started one in the same moment; return that one.

    Both callers saw nothing running, and see both executions now; the older one continues.
    """
    oldest = _oldest_running(executions)
    if oldest is None or oldest == arn:
        return None
    sagemaker.stop_pipeline_execution(
        PipelineExecutionArn=arn, ClientRequestToken=hashlib.sha256(arn.encode()).hexdigest()
    )
    return oldest


def _oldest_running(executions: list[dict[str, Any]]) -> str | None:
    running = [each for each in executions if each["PipelineExecutionStatus"] in RUNNING]
    # The ARN breaks the tie between two of the same moment, so that both callers decide alike.
    oldest = min(
        running, key=lambda each: (each["StartTime"], each["PipelineExecutionArn"]), default=None
    )
    return str(oldest["PipelineExecutionArn"]) if oldest else None


def _executions(sagemaker: Any, pipeline: str) -> list[dict[str, Any]]:
    """Return summaries of all executions: the API filters by time only; one may run for weeks."""
    pages = sagemaker.get_paginator("list_pipeline_executions").paginate(
        PipelineName=pipeline, SortOrder="Descending"
    )
    return [summary for page in pages for summary in page["PipelineExecutionSummaries"]]


def _publish(cloudwatch: Any, origin: str, outcome: Outcome) -> None:
    """Publish all three every time: the number of values of each is that of deliveries."""
    names = {
        "ScheduledStarts": "started",
        "SkippedOverlap": "overlap",
        "SkippedDuplicate": "duplicate",
    }
    of = {"Pipeline": os.environ["PIPELINE_NAME"], "Schedule": origin}
    dimensions = [{"Name": name, "Value": value} for name, value in of.items()]
    counted = {"Unit": "Count", "Dimensions": dimensions}
    data = [
        {"MetricName": name, "Value": float(outcome.status == status), **counted}
        for name, status in names.items()
    ]
    cloudwatch.put_metric_data(Namespace="Shoal", MetricData=data)
