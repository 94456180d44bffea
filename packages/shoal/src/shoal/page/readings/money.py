"""What a run has cost so far: seconds of instances at list prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it needs a package that the function that keeps pages does not have
    from shoal.costs.prices import Price


@dataclass(frozen=True)
class Use:
    """Instances that a step has used; None is what could not be read."""

    step: str
    instance_type: str | None
    instance_count: int | None
    seconds: float | None
    runs: bool
    """Whether they run still."""


@dataclass(frozen=True)
class Money:
    """The uses with their prices."""

    items: tuple[dict[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return items and sums in US dollars; null where a use, or its price, is not known."""
        known = [item for item in self.items if item["usd"] is not None]
        running = [item["usd_per_hour"] for item in known if item["runs"]]
        return {
            "usd": round(sum(item["usd"] for item in known), 6)
            if len(known) == len(self.items)
            else None,
            "usd_of_known": round(sum(item["usd"] for item in known), 6),
            "usd_per_hour_now": round(sum(running), 6),
            "items": list(self.items),
        }


def money_of(uses: Iterable[Use], price_of: Callable[[str], Price | None]) -> Money:
    """Return what the uses cost at the price of each instance type."""
    return Money(tuple(_item(use, price_of) for use in uses))


def _item(use: Use, price_of: Callable[[str], Price | None]) -> dict[str, Any]:
    price = price_of(use.instance_type) if use.instance_type else None
    hourly = price.usd_per_hour * use.instance_count if price and use.instance_count else None
    return {
        "step": use.step,
        "instance_type": use.instance_type,
        "instance_count": use.instance_count,
        "seconds": use.seconds,
        "runs": use.runs,
        "usd_per_hour": hourly,
        "usd": None
        if hourly is None or use.seconds is None
        else round(hourly * use.seconds / 3600, 6),
        "source": f"{price.source}, {price.date}{', estimate' if price.is_estimate else ''}"
        if price
        else None,
    }
