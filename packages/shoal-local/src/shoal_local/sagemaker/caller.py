"""Who makes a request: kept while its operation runs, for what the model registry notes of its
users.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shoal_local.sagemaker.shapes import Document

_caller: ContextVar[str] = ContextVar("caller")


@contextmanager
def calling(arn: str) -> Iterator[None]:
    """Let requests of this thread be made by `arn` while this is open."""
    token = _caller.set(arn)
    try:
        yield
    finally:
        _caller.reset(token)


def user_context() -> Document:
    """Return the `UserContext` of the caller.

    Its IamIdentity is there for model packages, groups and projects only (API reference,
    UserContext).
    """
    return {"IamIdentity": {"Arn": _caller.get()}}
