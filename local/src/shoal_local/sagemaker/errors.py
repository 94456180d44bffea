"""The errors that SageMaker answers, in its wording (dg2023, API reference; messages as users
report them).
"""

from __future__ import annotations

from shoal_local.errors import AwsError


def invalid(message: str) -> AwsError:
    """A request that SageMaker refuses."""
    return AwsError("ValidationException", message)


def not_emulated(what: str) -> AwsError:
    """Something that AWS has and this emulator has not; refused by name before anything is
    started.
    """
    return AwsError(
        "ValidationException", f"The Shoal emulator does not emulate {what}. Nothing was started."
    )


def not_found(message: str) -> AwsError:
    """For the operations whose documentation lists ResourceNotFound (jobs, pipelines,
    executions).
    """
    return AwsError("ResourceNotFound", message)


def in_use(message: str) -> AwsError:
    """A name that is taken (documented for the Create operations of jobs and pipelines)."""
    return AwsError("ResourceInUse", message)


def conflict(message: str) -> AwsError:
    """A state that excludes the request."""
    return AwsError("ConflictException", message)
