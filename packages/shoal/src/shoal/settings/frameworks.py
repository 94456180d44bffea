"""The frameworks of the training images, the runtimes of shoal-local that stand for them, and what
an environment file may leave out, by framework and strategy (strategies.yaml).
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from shoal.settings.parsing.base import Settings
from shoal.settings.parsing.yaml_file import read_table


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

    images: dict[Annotated[str, Field(pattern=r"^[^\s=]+$")], Framework] = Field(
        default_factory=dict
    )
    """Images of your own, by URI or shell pattern, each with the framework whose local runtime
    stands for it: see `shoal docs decisions/images`.
    """

    @property
    def runtimes(self) -> dict[str, str]:
        """The local runtimes by patterns of images."""
        return {pattern: framework.runtime for pattern, framework in self.images.items()}


FALLBACK_SCRIPT = "train.py"
"""The script of a combination that is not in the table; the launch contract refuses it by name."""


_TABLE: dict[str, Any] = read_table(__file__, "strategies.yaml")


def defaults(framework: str, strategy: str) -> dict[str, Any]:
    """Return the defaults of `strategy` with `framework`, which must be in the table, by key."""
    own: dict[str, Any] = _TABLE[framework]
    row: dict[str, Any] = own["strategies"].get(strategy, {})
    return {"entry_point": FALLBACK_SCRIPT} | own | row


def strategies_of(framework: str) -> tuple[str, ...]:
    """Return the strategies that `framework` can be distributed with."""
    return tuple(_TABLE[framework]["strategies"])
