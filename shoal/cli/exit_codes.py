"""The exit codes of `shoal`, as its help and the README tell them, and what they mean."""

from __future__ import annotations

OK, FAILED, USAGE, NOTHING_TO_DO, INTERRUPTED = 0, 1, 2, 3, 130


def exit_code_of(error: Exception) -> int | None:
    """Return the exit code that a failure means, or None for a bug."""
    from config.errors import ConfigError  # pydantic and botocore, which help does without
    from shoal.verbs.errors import AWS_ERRORS, NothingToPromoteError, ShoalError, UsageError

    if isinstance(error, NothingToPromoteError):
        return NOTHING_TO_DO
    if isinstance(error, ConfigError | UsageError):
        return USAGE
    return FAILED if isinstance(error, (ShoalError, *AWS_ERRORS)) else None
