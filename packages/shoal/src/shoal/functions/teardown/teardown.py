"""Cleans up after one pipeline execution, when the pipeline's step requests it and when the
execution has ended. Safe to run twice.

The step sends `pipeline_execution_arn` and gets `status` ("deleted" or "pending") and `deleted`
(JSON list of kind/name). The queue sends the execution's terminal-status events and gets the
messages to bring back, each later than the time before. The queue's redrive policy ends that, and
the alarm on its dead letters rings.
"""

import json
import logging
import os
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from deletion import CLIENT, client_until, deadline_of, is_running, tear_down

_MAX_PAUSE_S = 900
# The description of an execution may lag behind the event of its end; one that still runs after
# these looks runs again.
_MAX_LOOKS = 3

log = logging.getLogger()
log.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer the queue, whose event has Records, or the pipeline's Lambda step."""
    if "Records" in event:
        unfinished = [
            record["messageId"] for record in event["Records"] if not _finish(record, context)
        ]
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}
    deadline = deadline_of(context)
    finished, deleted = tear_down(client_until(deadline), event["pipeline_execution_arn"], deadline)
    return {"status": "deleted" if finished else "pending", "deleted": json.dumps(deleted)}


def _finish(record: dict[str, Any], context: Any) -> bool:
    """Return whether the message is done with; else it comes back after a pause that doubles."""
    execution_arn = json.loads(record["body"])["detail"]["pipelineExecutionArn"]
    received = int(record["attributes"]["ApproximateReceiveCount"])
    pause_s = min(int(os.environ["RETRY_AFTER_S"]) * 2 ** (received - 1), _MAX_PAUSE_S)
    deadline = deadline_of(context)
    sagemaker = client_until(deadline)
    try:
        if is_running(sagemaker, execution_arn):
            log.info("%s is running: the event came early, or it was started again", execution_arn)
            finished = received >= _MAX_LOOKS
        else:
            finished, deleted = tear_down(sagemaker, execution_arn, deadline)
            left = "nothing left" if finished else "to be tried again"
            log.info("%s: %s, deleted %s", execution_arn, left, deleted)  # pages of runs read it
    except (ClientError, BotoCoreError):
        # The error makes the function's alarm ring. The message comes back all the same, until
        # the queue gives it up: a person may cure it meanwhile.
        _bring_back(record, pause_s)
        raise
    if not finished:
        _bring_back(record, pause_s)
    return finished


def _bring_back(record: dict[str, Any], pause_s: int) -> None:
    sqs = boto3.client("sqs", config=CLIENT)
    url = sqs.get_queue_url(QueueName=record["eventSourceARN"].rpartition(":")[2])["QueueUrl"]
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=record["receiptHandle"], VisibilityTimeout=pause_s
    )
