"""A model that answers in parts, as the request says: {"parts": [TEXT, ...], "wait_for": S3 key,
"then": "die" | "refuse"}.

After the first part it waits until there is an object of that key, so that a test can say when the
rest comes.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import boto3
from ts.handler_utils.utils import (  # type: ignore[import-not-found, unused-ignore]
    send_intermediate_predict_response,
)


def model_fn(model_dir: str) -> None:
    """There is no model."""


def input_fn(body: str, content_type: str) -> Any:
    return json.loads(body)


def predict_fn(request: dict[str, Any], model: None, context: Any) -> Any:
    if request.get("then") == "refuse":
        raise ValueError("not this one")
    context.set_response_content_type(0, "text/plain")
    *parts, last = request["parts"]
    for part in parts:
        send_intermediate_predict_response([part], context.request_ids, "", 200, context)
        if request.get("wait_for"):
            wait_for(request.pop("wait_for"))
    if request.get("then") == "die":
        os._exit(11)
    return last


def output_fn(prediction: str, accept: str) -> str:
    return prediction


def wait_for(key: str) -> None:
    s3 = boto3.client("s3")
    while "Contents" not in s3.list_objects_v2(Bucket="jobs-of-the-tests", Prefix=key):
        time.sleep(0.02)
