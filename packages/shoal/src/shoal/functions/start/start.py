"""Starts one execution of the pipeline, unless one runs already."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any, Literal

RUNNING = ("Executing", "Stopping")


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
    description: str
    log_label: str
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
        PipelineExecutionDescription=request.description,
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
    """Return summaries of all executions: the API filters by time only, and one may run for
    weeks.
    """
    pages = sagemaker.get_paginator("list_pipeline_executions").paginate(
        PipelineName=pipeline, SortOrder="Descending"
    )
    return [summary for page in pages for summary in page["PipelineExecutionSummaries"]]
