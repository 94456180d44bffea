"""The synthesised stacks of one environment, as the pictures read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.identity.templates import Templates


@dataclass(frozen=True)
class Deployment:
    """Templates whose network stack is called `<prefix>-network`."""

    templates: Templates

    @property
    def prefix(self) -> str:
        """What begins the names of everything that belongs to the environment."""
        (network,) = [name for name in self.templates.stacks if name.endswith("-network")]
        return network.removesuffix("-network")

    @property
    def stacks(self) -> dict[str, dict[str, Any]]:
        """The templates by the stacks' short names, as in `network`."""
        return {self._short(name): each for name, each in self.templates.stacks.items()}

    @property
    def waits_for(self) -> dict[str, list[str]]:
        """The stacks that each is deployed after."""
        return {
            self._short(name): [self._short(each) for each in others]
            for name, others in self.templates.waits_for.items()
        }

    def _short(self, name: str) -> str:
        return name.removeprefix(f"{self.prefix}-")
