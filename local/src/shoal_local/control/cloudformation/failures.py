"""What may go wrong with a resource, and with a deployment that is then taken back."""

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
    """A resource failed; the deployment is taken back."""


@contextmanager
def failing(stack: str) -> Iterator[None]:
    """Whatever goes wrong with a template is a FailedError: a thread that ended otherwise would
    leave its stack in progress for ever.
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


def explained(error: Exception) -> str:
    """The reason of a failure, for a stack event."""
    if isinstance(error, ClientError):
        return reason_of(error)
    return error.message if isinstance(error, AwsError) else str(error)
