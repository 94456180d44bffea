"""How a command ends: the exit codes of `shoal`, as its help and the README tell them, and what
they mean; and Ctrl-C, SIGTERM and SIGHUP as one KeyboardInterrupt.

The first signal interrupts; later ones cannot disturb the clean-up.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

OK, FAILED, USAGE, NOTHING_TO_DO, INTERRUPTED = 0, 1, 2, 3, 130
_DISK = {errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.ENAMETOOLONG}
"""What the user's disk refuses, which is no bug; `str()` of such an OSError names the file."""


def exit_code_of(error: Exception) -> int | None:
    """Return the exit code that a failure means, or None for a bug."""
    # botocore and pydantic, which help does without
    from shoal.errors import AWS_ERRORS, NothingToPromoteError, ShoalError, UsageError
    from shoal.settings.parsing.errors import ConfigError

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


ENDS = "interrupted: ends what runs, takes all away; minutes here, up to half an hour on AWS"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_once(note: str = "") -> Iterator[Callable[[], None]]:
    """Yield `shield`. The first signal prints the note, which says what ends now.

    After it is called, and after the first signal, further signals only print a note.
    """
    shielded = False

    def shield() -> None:
        nonlocal shielded
        shielded = True

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal shielded
        if shielded:
            os.write(
                2, b"\ncleaning up; this cannot be interrupted\n"
            )  # print() is not safe in a handler
            return
        shielded = True
        if note:
            os.write(2, f"\n{note}\n".encode())
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield shield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
