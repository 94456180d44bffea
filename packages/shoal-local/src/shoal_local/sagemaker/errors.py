"""The errors that SageMaker answers, worded as in its API reference and in users' reports."""

from __future__ import annotations

from shoal_local.errors import AwsError


def invalid(message: str) -> AwsError:
    """Return the error for a request that SageMaker refuses."""
    return AwsError("ValidationException", message)


def not_emulated(what: str) -> AwsError:
    """Return the error for something that AWS has and this emulator has not.

    It names what is missing, and is raised before anything starts. Its code is that of the other
    services here, because SageMaker answers ValidationException for a resource that is not there.
    """
    return AwsError(
        "UnknownOperationException",
        f"The Shoal emulator does not emulate {what}. Nothing was started.",
    )


def not_found(message: str) -> AwsError:
    """Return the error of operations whose documentation lists ResourceNotFound (jobs, pipelines,
    executions).
    """
    return AwsError("ResourceNotFound", message)


def in_use(message: str) -> AwsError:
    """Return the error for a name that is in use (documented for the Create operations of jobs and
    pipelines).
    """
    return AwsError("ResourceInUse", message)


def conflict(message: str) -> AwsError:
    """Return the error for a request that the state of a resource excludes."""
    return AwsError("ConflictException", message)
