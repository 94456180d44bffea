"""A job's name from its ARN.

ARNs are lower case; log streams and Describe operations need the name with its capitals.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache

from shoal.verbs.errors import NotFoundError
from shoal.verbs.target import Target

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
    pages = (
        target.client("sagemaker")
        .get_paginator(OPERATIONS[kind])
        .paginate(
            SortBy="CreationTime",
            SortOrder="Ascending",
            PaginationConfig={"PageSize": _MOST_A_PAGE},
            **since,
        )
    )
    for page in pages:
        for job in page[f"{kind}Summaries"]:
            if str(job[f"{kind}Arn"]).lower() == arn.lower():
                return str(job[f"{kind}Name"])
    raise NotFoundError(f"there is no job {arn}")
