"""The exit code that a failure means."""

from __future__ import annotations

from config.errors import ConfigError
from shoal.cli.exit_codes import FAILED, NOTHING_TO_DO, USAGE
from shoal.verbs.errors import AWS_ERRORS, LifecycleError, NothingToPromoteError, UsageError


def exit_code_of(error: Exception) -> int | None:
    """2 for wrong usage or configuration, 3 when there is nothing to do, 1 for what failed when it
    was run, None for a bug.
    """
    if isinstance(error, NothingToPromoteError):
        return NOTHING_TO_DO
    if isinstance(error, ConfigError | UsageError):
        return USAGE
    return FAILED if isinstance(error, (LifecycleError, *AWS_ERRORS)) else None
