"""The errors of a pipeline definition, Shoal's own or a user's, and notices of risks."""

from __future__ import annotations

from collections.abc import Sequence


class DefinitionError(Exception):
    """The definition cannot be sent to SageMaker; `str()` gives every mistake, one per line, which
    names the step.
    """

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(mistakes))


class Risk(str):
    """A notice of what may make a run fail; only a run can tell."""

    __slots__ = ()
