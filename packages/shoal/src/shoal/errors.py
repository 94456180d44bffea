"""What can go wrong in a verb.

`str()` of each is the whole message for the user; anything else that is raised is a bug.

Refusals of the AWS API stay botocore's own exceptions (`AWS_ERRORS`); `refusal()` turns one into
one line.
"""

from collections.abc import Sequence
from pathlib import Path

from boto3.exceptions import Boto3Error
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    PartialCredentialsError,
)

AWS_ERRORS = (ClientError, BotoCoreError, Boto3Error)


class ShoalError(Exception):
    """Base of everything a verb reports."""


class _LoggedError(ShoalError):
    """Carries the last lines of a log, and where the rest is."""

    def __init__(self, message: str, tail: Sequence[str] = (), log: str | None = None) -> None:
        lines = [message]
        if tail:
            lines += ["last lines of its log:", *(f"  {line}" for line in tail)]
        if log:
            lines.append(f"whole log: {log}")
        super().__init__("\n".join(lines))


class UsageError(ShoalError):
    """The verb cannot be done as asked; nothing was changed."""


class ToolMissingError(UsageError):
    """A program that must be installed is not."""


class DatasetError(UsageError):
    """A dataset file is missing or is not the published one."""


class WrongAccountError(UsageError):
    """The credentials belong to another account than the environment."""


class ParameterError(UsageError):
    """A pipeline parameter that is not declared, or a value that is not of its type."""


class NotFoundError(UsageError):
    """There is no such pipeline, execution, step or endpoint."""


class PromotionError(UsageError):
    """This release may not be promoted, or not so; no branch and no commit was made."""


class NothingToPromoteError(PromotionError):
    """Nothing is approved, or pinned, that could go further; a scheduled caller may ignore it."""


class ProtectedError(UsageError):
    """The environment is protected against what was asked."""


class CommandError(_LoggedError):
    """A child process failed, or was stopped at its deadline: then its exit code is None."""

    def __init__(self, what: str, exit_code: int | None, tail: Sequence[str], log: Path) -> None:
        ending = f"failed with exit code {exit_code}"
        if exit_code is None:
            ending = "did not end in time and was stopped"
        super().__init__(f"{what} {ending}", tail, str(log))
        self.exit_code = exit_code


class AnswerError(ShoalError):
    """A program that was asked something answered with an error."""


class DisagreementError(ShoalError):
    """What an environment pins is not what is there."""


class ExecutionError(_LoggedError):
    """An execution did not succeed."""


class ImageBuildError(_LoggedError):
    """A build of a container image did not succeed."""


class LeftBehindError(ShoalError):
    """Something is still there after it was removed."""


def refusal(error: BaseException) -> str:
    """Return one line for a refusal of the AWS API or a failure to reach it."""
    if isinstance(error, ClientError):
        detail = error.response.get("Error", {})
        return f"{error.operation_name} was refused: {detail.get('Code')}: {detail.get('Message')}"
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return f"{error}; log in to AWS, or add --local to use the emulator"
    return str(error)


def error_code(error: ClientError) -> str:
    """Return the error code of a refusal: ValidationException, ResourceNotFound, NoSuchKey, ..."""
    return str(error.response.get("Error", {}).get("Code", ""))
