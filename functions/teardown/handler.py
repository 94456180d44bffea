"""Deletes what one pipeline execution put behind its endpoint: the endpoint, its configuration, its model.

In: a Lambda step's arguments (`pipeline_execution_arn`), or SQS records of the execution's terminal-status event. Out: for the
step `status` ("deleted" or "pending") and `deleted` (JSON list of names); for SQS the messages to bring back. Safe to run twice.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.exceptions import ClientError

# In these states SageMaker refuses DeleteEndpoint, or is deleting already.
_IN_PROGRESS = ("Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting")
_POLL_S = 1.0
_SPARE_S = 15.0

log = logging.getLogger()
log.setLevel(logging.INFO)


@dataclass
class Owned:
    """Names of what an execution created; sets, because they are found in more than one way."""

    endpoints: set[str] = field(default_factory=set)
    configs: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer the queue (the event has Records) or the pipeline's Lambda step."""
    if "Records" in event:
        unfinished = [record["messageId"] for record in event["Records"] if not _finish(record, context)]
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}
    finished, deleted = tear_down(boto3.client("sagemaker"), event["pipeline_execution_arn"], _deadline(context))
    return {"status": "deleted" if finished else "pending", "deleted": json.dumps(deleted)}


def tear_down(sagemaker: Any, execution_arn: str, deadline: float) -> tuple[bool, list[str]]:
    """Delete endpoints, then configurations, then models; an endpoint that is not gone keeps what it uses.

    Returns whether nothing is left, and the names deleted now. `deadline` is a time.monotonic() value.
    """
    owned = find_owned(sagemaker, execution_arn)
    log.info("%s owns %s", execution_arn, owned)
    deleted: list[str] = []
    # No short circuit: every endpoint gets its DeleteEndpoint before the first one is waited for again.
    gone = [_delete_endpoint(sagemaker, name, deadline, deleted) for name in sorted(owned.endpoints)]
    if not all(gone):
        return False, deleted
    for name in sorted(owned.configs):
        if _unless_gone(sagemaker.delete_endpoint_config, EndpointConfigName=name) is not None:
            deleted.append(name)
    for name in sorted(owned.models):
        if _unless_gone(sagemaker.delete_model, ModelName=name) is not None:
            deleted.append(name)
    return True, deleted


def find_owned(sagemaker: Any, execution_arn: str) -> Owned:
    """What the execution's steps report, and whatever of ours has the execution's id in its name.

    A step that was cut off may have created something that its metadata does not say.
    """
    pipeline, execution_id = os.environ["PIPELINE_NAME"], execution_arn.rsplit("/", 1)[1]
    owned = Owned()
    for metadata in _step_metadata(sagemaker, execution_arn):
        owned.endpoints.update(_names(metadata, "Endpoint"))
        owned.configs.update(_names(metadata, "EndpointConfig"))
        owned.models.update(_names(metadata, "Model"))
    owned.endpoints.update(_listed(sagemaker, "list_endpoints", "Endpoints", "EndpointName", execution_id))
    owned.configs.update(_listed(sagemaker, "list_endpoint_configs", "EndpointConfigs", "EndpointConfigName", execution_id))
    owned.models.update(_listed(sagemaker, "list_models", "Models", "ModelName", execution_id))
    for names in (owned.endpoints, owned.configs, owned.models):
        names.intersection_update({name for name in names if name.startswith((f"{pipeline}-", "pipelines-"))})
    return owned


def _finish(record: dict[str, Any], context: Any) -> bool:
    execution_arn = json.loads(record["body"])["detail"]["pipelineExecutionArn"]
    finished, deleted = tear_down(boto3.client("sagemaker"), execution_arn, _deadline(context))
    log.info("%s: %s, deleted %s", execution_arn, "nothing left" if finished else "to be tried again", deleted)
    return finished


def _deadline(context: Any) -> float:
    return time.monotonic() + context.get_remaining_time_in_millis() / 1000 - _SPARE_S


def _step_metadata(sagemaker: Any, execution_arn: str) -> Iterable[dict[str, Any]]:
    try:
        pages = list(sagemaker.get_paginator("list_pipeline_execution_steps").paginate(PipelineExecutionArn=execution_arn))
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFound":
            raise
        return []
    return [step.get("Metadata", {}) for page in pages for step in page["PipelineExecutionSteps"]]


def _names(metadata: dict[str, Any], kind: str) -> list[str]:
    arn = metadata.get(kind, {}).get("Arn")
    return [arn.rsplit("/", 1)[1]] if arn else []


def _listed(sagemaker: Any, operation: str, key: str, name_key: str, execution_id: str) -> list[str]:
    pages = sagemaker.get_paginator(operation).paginate(NameContains=execution_id)
    return [item[name_key] for page in pages for item in page[key]]


def _delete_endpoint(sagemaker: Any, name: str, deadline: float, deleted: list[str]) -> bool:
    """Ask for the deletion and look until the endpoint is gone. DeleteEndpoint's own answer proves nothing."""
    status = _endpoint_status(sagemaker, name)
    if status is not None and status not in _IN_PROGRESS:
        try:
            _unless_gone(sagemaker.delete_endpoint, EndpointName=name)
        except ClientError as error:
            if "in-progress" not in str(error):
                raise
            log.info("%s changed its state meanwhile: %s", name, error)
        deleted.append(name)
        status = _endpoint_status(sagemaker, name)
    while status == "Deleting" and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        status = _endpoint_status(sagemaker, name)
    if status is not None:
        log.info("endpoint %s is %s", name, status)
    return status is None


def _endpoint_status(sagemaker: Any, name: str) -> str | None:
    answer = _unless_gone(sagemaker.describe_endpoint, EndpointName=name)
    return None if answer is None else str(answer["EndpointStatus"])


def _unless_gone(call: Any, **arguments: str) -> dict[str, Any] | None:
    """The call's answer, or None when its subject does not exist: SageMaker says so with a ValidationException."""
    try:
        answer: dict[str, Any] = call(**arguments)
    except ClientError as error:
        if "Could not find" not in error.response["Error"]["Message"]:
            raise
        return None
    return answer
