"""The exit codes of `shoal`, as its help and the README tell them, and what they mean."""

from __future__ import annotations

import errno
from typing import Any

import click

OK, FAILED, USAGE, NOTHING_TO_DO, INTERRUPTED = 0, 1, 2, 3, 130
_DISK = {errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES}
"""What the user's disk refuses, which is no bug; `str()` of such an OSError names the file."""


def exit_code_of(error: Exception) -> int | None:
    """Return the exit code that a failure means, or None for a bug."""
    from shoal.errors import AWS_ERRORS, NothingToPromoteError, ShoalError, UsageError
    from shoal.settings.parsing.errors import (
        ConfigError,
    )  # pydantic and botocore, which help does without

    if isinstance(error, NothingToPromoteError):
        return NOTHING_TO_DO
    if isinstance(error, ConfigError | UsageError):
        return USAGE
    if isinstance(error, OSError) and error.errno in _DISK:
        return FAILED
    return FAILED if isinstance(error, (ShoalError, *AWS_ERRORS)) else None


def is_answer(error: BaseException | None) -> bool:
    """Return whether a verb that raises this, or None, has answered; what it tells may be bad."""
    from shoal.errors import DisagreementError, ExecutionError

    kinds = (click.exceptions.Exit, DisagreementError, ExecutionError)
    return error is None or isinstance(error, kinds)


def error_document(error: BaseException, message: str, exit_code: int) -> dict[str, Any]:
    """Return what a verb that failed prints with `--json`; `kind` is a class's name."""
    told = {"kind": type(error).__name__, "message": message, "exit_code": exit_code}
    return {"schema": "shoal/error/1", "error": told}
