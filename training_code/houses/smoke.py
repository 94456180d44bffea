"""What no single answer shows: with more weight diabetes goes further, whoever it is."""

from __future__ import annotations

import json
from collections.abc import Callable

PEOPLE = (
    (50, 1, 26, 95, 190, 115, 50, 4, 4.6, 91),
    (35, 2, 20, 80, 170, 100, 65, 3, 4.1, 80),
    (60, 2, 24, 100, 200, 120, 55, 4, 4.8, 95),
)
"""Age, sex, body mass index, blood pressure, and six measurements of blood serum."""
MORE_INDEX = 12
"""Added to the body mass index."""


def check(ask: Callable[..., bytes]) -> list[str]:
    """Return a sentence for each person in whom it would go no further with more weight.

    `ask(body, content_type, accept)` returns the bytes of the endpoint's answer.
    """
    heavier = [(age, sex, index + MORE_INDEX, *rest) for age, sex, index, *rest in PEOPLE]
    answer = json.loads(ask(json.dumps({"instances": [*PEOPLE, *heavier]}).encode()))
    progressions = answer["predictions"]
    pairs = zip(PEOPLE, progressions, progressions[len(PEOPLE) :], strict=False)
    return [
        f"{person} has {before:.0f}, and {after:.0f} with more weight"
        for person, before, after in pairs
        if after <= before
    ]
