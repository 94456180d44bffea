"""A job's name from its ARN, and the names of a step's earlier attempts.

ARNs are lower case; log streams and Describe operations need the name with its capitals.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from shoal.aws.target import Target
from shoal.errors import NotFoundError

OPERATIONS = {
    "TrainingJob": "list_training_jobs",
    "ProcessingJob": "list_processing_jobs",
    "TransformJob": "list_transform_jobs",
}
_CLOCK_SLACK = timedelta(minutes=5)
_MOST_A_PAGE = 100


@cache
def job_name(target: Target, kind: str, arn: str, started_at: datetime | None) -> str:
    """Return the name of the `kind` (a key of OPERATIONS) with this ARN.

    Looks among the jobs created since the step started, the first ones first, and once: in a busy
    account SageMaker lists few jobs a second. Raises NotFoundError.
    """
    since = {"CreationTimeAfter": started_at - _CLOCK_SLACK} if started_at else {}
    for job in _jobs(target, kind, **since):
        if str(job[f"{kind}Arn"]).lower() == arn.lower():
            return str(job[f"{kind}Name"])
    raise NotFoundError(f"there is no job {arn}")


@cache
def earlier_attempts(target: Target, kind: str, name: str, since: datetime) -> tuple[str, ...]:
    """Return the names of the jobs that a pipeline's step ran before the one with this name, all
    after the execution's start.

    SageMaker calls a step's jobs `pipelines-EXECUTION-STEP-SUFFIX`, so all of them but the suffix
    is the same (seen of single jobs; of retries it is an assumption).
    """
    alike, after = f"{name.rpartition('-')[0]}-", since - _CLOCK_SLACK
    jobs = _jobs(target, kind, NameContains=alike, CreationTimeAfter=after)
    names = [str(job[f"{kind}Name"]) for job in jobs]
    return tuple(
        each
        for each in names[: names.index(name)]
        if each.startswith(alike) and "-" not in each.removeprefix(alike)
    )


def _jobs(target: Target, kind: str, **filters: Any) -> Iterator[dict[str, Any]]:
    """Yield summaries of jobs, the first ones first."""
    pages = (
        target.client("sagemaker")
        .get_paginator(OPERATIONS[kind])
        .paginate(
            SortBy="CreationTime",
            SortOrder="Ascending",
            PaginationConfig={"PageSize": _MOST_A_PAGE},
            **filters,
        )
    )
    for page in pages:
        yield from page[f"{kind}Summaries"]
