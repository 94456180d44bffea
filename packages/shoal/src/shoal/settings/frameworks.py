"""The frameworks of the training images, and the runtimes of shoal-local that stand for them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from shoal.settings.parsing.base import Settings


class Framework(StrEnum):
    """The framework of the training image."""

    PYTORCH = "pytorch"
    TENSORFLOW = "tensorflow"
    SKLEARN = "sklearn"
    XGBOOST = "xgboost"

    @property
    def runtime(self) -> str:
        """The runtime of shoal-local that stands for its images."""
        return "sklearn" if self in CLASSICAL else str(self)


CLASSICAL = (Framework.SKLEARN, Framework.XGBOOST)
"""Frameworks of which one image of AWS's trains, measures and answers."""


class Local(Settings):
    """What only the emulator on this machine needs to know."""

    images: dict[Annotated[str, StringConstraints(pattern=r"^[^\s=]+$")], Framework] = Field(
        default_factory=dict
    )
    """Images of your own, by URI or shell pattern, each with the framework whose local runtime
    stands for it: see `shoal docs decisions/images`.
    """

    @property
    def runtimes(self) -> dict[str, str]:
        """The local runtimes by patterns of images."""
        return {pattern: framework.runtime for pattern, framework in self.images.items()}
