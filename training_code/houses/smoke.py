"""What no single answer shows: a house in a richer district costs more, whichever it is."""

from __future__ import annotations

import json
from collections.abc import Callable

HOUSES = ((3.5, 6, 20, 5.0), (2.0, 4, 50, 40.0), (5.0, 8, 5, 70.0))
"""Income of the district, rooms, years, km to the sea."""
MORE_INCOME = 3.0


def check(ask: Callable[..., bytes]) -> list[str]:
    """Return a sentence for each house that costs no more in a richer district.

    `ask(body, content_type, accept)` returns the bytes of the endpoint's answer.
    """
    richer = [(income + MORE_INCOME, *rest) for income, *rest in HOUSES]
    answer = json.loads(ask(json.dumps({"instances": [*HOUSES, *richer]}).encode()))
    prices = answer["predictions"]
    pairs = zip(HOUSES, prices, prices[len(HOUSES) :], strict=False)
    return [
        f"{house} costs {before:.0f}, and {after:.0f} in a richer district"
        for house, before, after in pairs
        if after <= before
    ]
