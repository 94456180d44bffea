"""What a run has cost so far: seconds of instances at list prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
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


def money_of(uses: Iterable[Use], price_of: Callable[[str], Price | None]) -> dict[str, Any]:
    """Return the uses at list prices, and sums in US dollars; null where one is not known."""
    items = [_item(use, price_of) for use in uses]
    known = [item for item in items if item["usd"] is not None]
    usd = round(sum(item["usd"] for item in known), 6)
    return {
        "usd": usd if len(known) == len(items) else None,
        "usd_of_known": usd,
        "usd_per_hour_now": round(sum(item["usd_per_hour"] for item in known if item["runs"]), 6),
        "items": items,
    }


def _item(use: Use, price_of: Callable[[str], Price | None]) -> dict[str, Any]:
    price = price_of(use.instance_type) if use.instance_type else None
    hourly = price.usd_per_hour * use.instance_count if price and use.instance_count else None
    usd = None
    if hourly is not None and use.seconds is not None:
        usd = round(hourly * use.seconds / 3600, 6)
    return {
        **asdict(use),
        "usd_per_hour": hourly,
        "usd": usd,
        "source": price
        and f"{price.source}, {price.date}{', estimate' if price.is_estimate else ''}",
    }
