"""What `serve --keep` keeps of a part of the emulator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

Container = dict[Any, Any] | list[Any] | set[Any]
Kept = Mapping[str, Container]


class Keeper(ABC):
    """A part of an account with state of its own."""

    @property
    @abstractmethod
    def kept(self) -> Kept:
        """Return the containers of the state, by names that stay from one version to the next."""

    def restore(self, saved: Kept) -> None:
        """Put an earlier emulator's state into the containers; nothing may run by it yet."""
        for name, container in self.kept.items():
            container.clear()
            if isinstance(container, list):
                container.extend(saved[name])
            else:
                container.update(saved[name])
