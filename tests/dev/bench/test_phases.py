"""A job measures how well it scales, from the times of its ranks' steps together, apart and
alone.
"""

from __future__ import annotations

import importlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dev.bench.training import SCRIPTS

# Each rank's seconds for a step. The second is half as fast by itself, and together the first waits
# for it.
TOGETHER, APART, ALONE = (5.0, 5.0), (2.2, 4.4), (2.0, 4.0)
# Of two ranks alone, each sees its own turn: together, apart, second, first; apart, first,
# together, second; ...
FIRST_RANK = [
    (TOGETHER, APART, ALONE),
    (APART, ALONE, TOGETHER),
    (ALONE, APART, TOGETHER),
    (TOGETHER, ALONE, APART),
]
SECOND_RANK = [
    (TOGETHER, APART, ALONE),
    (APART, TOGETHER, ALONE),
    (ALONE, APART, TOGETHER),
    (ALONE, TOGETHER, APART),
]
SPELLS = (1.0, 2.0, 1.0, 10.0)
"""How much slower than usual the machine is in each cycle."""


class Host:
    """A place where two threads meet as ranks, each with a clock that only its own steps
    advance.
    """

    def __init__(self, phases: Any) -> None:
        self.phases = phases
        self.barrier = threading.Barrier(2)
        self.given: list[Any] = [None, None]

    def gather(self, rank: int, one: Any) -> list[Any]:
        self.given[rank] = one
        self.barrier.wait(10)
        return self.given

    def measure(self, rank: int) -> dict[str, float]:
        orders = (FIRST_RANK, SECOND_RANK)[rank]
        script = [
            (kind, spell) for order, spell in zip(orders, SPELLS, strict=True) for kind in order
        ]
        now_s = 0.0

        def step(communicate: bool) -> None:
            nonlocal now_s
            kind, spell = script.pop(0)
            assert communicate == (kind is TOGETHER)
            now_s += kind[rank] * spell

        def meet() -> None:
            self.barrier.wait(10)

        job = self.phases.Job(rank, 2, meet, lambda one: self.gather(rank, one), lambda: now_s)
        figures: dict[str, float] = self.phases.scaling(job, step, cycles=4, steps=1)
        assert not script
        return figures


@pytest.fixture
def phases(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of the peers' scripts, which they import from their own folder."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("phases")


def test_efficiency_is_the_rate_of_all_over_the_sum_of_each_alone_whatever_spells_the_machine_has(
    phases: Any,
) -> None:
    host = Host(phases)
    with ThreadPoolExecutor(2) as ranks:
        first, second = ranks.map(host.measure, range(2))
    alone = 1 / 2.0 + 1 / 4.0  # steps per second
    assert first["efficiency"] == pytest.approx(2 / 5.0 / alone)
    assert first["efficiency_apart"] == pytest.approx(2 / 4.4 / alone)
    assert first["over_apart"] == pytest.approx(4.4 / 5.0)
    assert first["together_ms"] == pytest.approx(1000 * 5.0 * 1.5)  # the median of the spells
    assert first == second
