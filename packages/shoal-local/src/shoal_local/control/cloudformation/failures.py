"""Failures of resources and deployments."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.control.cloudformation.resources.base import ResourceError, reason_of
from shoal_local.errors import AwsError

log = logging.getLogger(__name__)

FAILURES = (ResourceError, AwsError, ClientError, BotoCoreError)


class FailedError(Exception):
    """The deployment failed, and is rolled back."""


@contextmanager
def template_errors(stack: str) -> Iterator[None]:
    """Turn every error of a template into FailedError.

    A thread that ended otherwise would leave its stack in progress for ever.
    """
    try:
        yield
    except FailedError:
        raise
    except AwsError as error:
        raise FailedError(error.message) from error
    except Exception as error:
        log.exception("the template of %s", stack)
        raise FailedError(f"{type(error).__name__}: {error}") from error


def failure_reason(error: Exception) -> str:
    """Return the reason of a failure, for a stack event."""
    if isinstance(error, ClientError):
        return reason_of(error)
    return error.message if isinstance(error, AwsError) else str(error)
