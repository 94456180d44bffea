"""Cleans up after one pipeline execution, when the pipeline's step asks for it and when the execution has ended.

In: a Lambda step's arguments (`pipeline_execution_arn`), or SQS records of the execution's terminal-status event. Out: for the
step `status` ("deleted" or "pending") and `deleted` (JSON list of kind/name); for SQS the messages to bring back. Safe to run twice.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import boto3
from deletion import tear_down

_SPARE_S = 15.0

log = logging.getLogger()
log.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer the queue (the event has Records) or the pipeline's Lambda step."""
    if "Records" in event:
        unfinished = [record["messageId"] for record in event["Records"] if not _finish(record, context)]
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}
    finished, deleted = tear_down(boto3.client("sagemaker"), event["pipeline_execution_arn"], _deadline(context))
    return {"status": "deleted" if finished else "pending", "deleted": json.dumps(deleted)}


def _finish(record: dict[str, Any], context: Any) -> bool:
    execution_arn = json.loads(record["body"])["detail"]["pipelineExecutionArn"]
    finished, deleted = tear_down(boto3.client("sagemaker"), execution_arn, _deadline(context))
    log.info("%s: %s, deleted %s", execution_arn, "nothing left" if finished else "to be tried again", deleted)
    return finished


def _deadline(context: Any) -> float:
    remaining_s = float(context.get_remaining_time_in_millis()) / 1000
    return time.monotonic() + remaining_s - _SPARE_S
