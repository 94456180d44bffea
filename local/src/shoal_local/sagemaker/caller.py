"""Whose request an operation answers: the caller's ARN in, kept while the operation runs; what the
registry notes of them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shoal_local.sagemaker.shapes import Document

_caller: ContextVar[str] = ContextVar("caller")


@contextmanager
def calling(arn: str) -> Iterator[None]:
    """While this is open, requests of this thread are made by `arn`."""
    token = _caller.set(arn)
    try:
        yield
    finally:
        _caller.reset(token)


def user_context() -> Document:
    """`UserContext` of whoever calls.

    API reference, UserContext: its IamIdentity is there for model packages, groups and projects
    only.
    """
    return {"IamIdentity": {"Arn": _caller.get()}}
