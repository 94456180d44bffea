"""Finds by their tags what executions made under names that do not say which execution it was."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

# No other environment's name goes on behind the pipeline's with a word of twelve characters:
# config/rules.py refuses that.
EXECUTION_ID = r"(?P<id>[a-z0-9]{12})"
MADE_UP = "pipelines"
"""What SageMaker puts in front of the name of a Model step's model; the execution's id comes behind
it.
"""
_PIPELINE_TAG = "shoal:pipeline"
_EXECUTION_TAG = "shoal:execution"
_GONE = ("ResourceNotFound", "ValidationException")

log = logging.getLogger()


@dataclass(frozen=True)
class Made:
    """An endpoint, configuration or model that an execution made."""

    kind: str
    """Endpoint, EndpointConfig or Model."""
    name: str
    execution_id: str
    created_at: datetime


def find_named(sagemaker: Any) -> Iterator[Made]:
    """What has the pipeline's name in front and an execution's id behind it."""
    pipeline = os.environ["PIPELINE_NAME"]
    for kind, item in _with_prefix(sagemaker, pipeline):
        execution_id = named_execution(pipeline, item[f"{kind}Name"])
        if execution_id is not None:
            yield Made(kind, item[f"{kind}Name"], execution_id, item["CreationTime"])


def find_tagged(sagemaker: Any) -> Iterator[Made]:
    """What has the pipeline's name in front and no execution's id behind it, but in its tags."""
    pipeline = os.environ["PIPELINE_NAME"]
    for kind, item in _with_prefix(sagemaker, pipeline):
        if named_execution(pipeline, item[f"{kind}Name"]) is None:
            execution_id = _tagged_execution(sagemaker, pipeline, item[f"{kind}Arn"])
            if execution_id is not None:
                yield Made(kind, item[f"{kind}Name"], execution_id, item["CreationTime"])


def _with_prefix(sagemaker: Any, pipeline: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for operation, kind in (
        ("list_endpoints", "Endpoint"),
        ("list_endpoint_configs", "EndpointConfig"),
        ("list_models", "Model"),
    ):
        for item in listed(sagemaker, operation, kind, f"{pipeline}-"):
            if item[f"{kind}Name"].startswith(f"{pipeline}-"):
                yield kind, item


def listed(sagemaker: Any, operation: str, kind: str, part: str) -> list[dict[str, Any]]:
    """What one of SageMaker's List operations says of everything with `part` in its name."""
    return [
        item
        for page in sagemaker.get_paginator(operation).paginate(NameContains=part)
        for item in page[f"{kind}s"]
    ]


def is_execution_id(text: str) -> bool:
    """Whether it has the form of an execution's id.

    What has not must never be looked for in names: `1` is in many, nothing in all.
    """
    return re.fullmatch(EXECUTION_ID, text) is not None


def named_execution(prefix: str, name: str) -> str | None:
    """The execution's id that a name has right behind `prefix`."""
    match = re.match(rf"{re.escape(prefix)}-{EXECUTION_ID}(-|$)", name)
    return match["id"] if match else None


def _tagged_execution(sagemaker: Any, pipeline: str, arn: str) -> str | None:
    try:
        pages = list(sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn))
    except ClientError as error:
        if error.response["Error"]["Code"] not in _GONE:
            raise
        log.info("%s is gone meanwhile: %s", arn, error)
        return None
    tags = {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}
    execution_id = str(tags.get(_EXECUTION_TAG, ""))
    return (
        execution_id
        if tags.get(_PIPELINE_TAG) == pipeline and is_execution_id(execution_id)
        else None
    )
