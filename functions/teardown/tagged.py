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

# No other environment's name goes on behind the pipeline's with a word of twelve characters: config/rules.py refuses that.
EXECUTION_ID = r"(?P<id>[a-z0-9]{12})"
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


def find_made(sagemaker: Any) -> Iterator[Made]:
    """What has the pipeline's name in front, with the execution that its name says or, where the name says none, its tags."""
    pipeline = os.environ["PIPELINE_NAME"]
    for operation, kind in (("list_endpoints", "Endpoint"), ("list_endpoint_configs", "EndpointConfig"), ("list_models", "Model")):
        for item in listed(sagemaker, operation, kind, f"{pipeline}-"):
            name = item[f"{kind}Name"]
            if not name.startswith(f"{pipeline}-"):
                continue
            execution_id = named_execution(pipeline, name) or _tagged_execution(sagemaker, pipeline, item[f"{kind}Arn"])
            if execution_id is not None:
                yield Made(kind, name, execution_id, item["CreationTime"])


def listed(sagemaker: Any, operation: str, kind: str, part: str) -> list[dict[str, Any]]:
    """What one of SageMaker's List operations says of everything with `part` in its name."""
    return [item for page in sagemaker.get_paginator(operation).paginate(NameContains=part) for item in page[f"{kind}s"]]


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
    return tags.get(_EXECUTION_TAG) if tags.get(_PIPELINE_TAG) == pipeline else None
