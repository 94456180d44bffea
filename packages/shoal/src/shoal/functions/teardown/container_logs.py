"""Gives the log groups of deleted endpoints an end.

SageMaker makes `/aws/sagemaker/Endpoints/<endpoint>` for each endpoint, without retention: every
execution would leave what its container said for ever.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

from botocore.exceptions import ClientError

_DEFAULT_DAYS = "90"
"""As `observability.log_retention_days` has it."""

log = logging.getLogger()


def limit(logs: Any, endpoints: Iterable[str]) -> None:
    """Set the retention of each endpoint's group; one that wrote nothing has none.

    Nothing costs money by the hour here, so a refusal is written down and stops no teardown.
    """
    for name in endpoints:
        try:
            logs.put_retention_policy(
                logGroupName=f"/aws/sagemaker/Endpoints/{name}",
                retentionInDays=int(os.environ.get("LOG_RETENTION_DAYS", _DEFAULT_DAYS)),
            )
        except logs.exceptions.ResourceNotFoundException:
            log.info("%s has written no log", name)
        except ClientError as error:
            log.warning("the log of %s keeps no end: %s", name, error)
