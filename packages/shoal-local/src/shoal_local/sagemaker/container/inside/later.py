"""Puts a module's import off for those who import it in a `with` block.

`importlib.util.LazyLoader` does not: Python 3.11 looks at `__spec__` of a module that is imported
again, and that look loads it.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Later(types.ModuleType):
    """Stands for a module, and imports it when an attribute is looked at."""

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self.__name__), attribute)


@contextmanager
def imported_later(name: str) -> Iterator[None]:
    """Let anything that imports the module in this block get it when it is used.

    After the block everybody imports the module itself, so that its submodules have one parent.
    """
    sys.modules[name] = _Later(name)
    try:
        yield
    finally:
        del sys.modules[name]
