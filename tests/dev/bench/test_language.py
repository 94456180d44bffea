"""The bench of the language model still runs with the script and the peers of today."""

from __future__ import annotations

import pytest

from dev.bench import language
from dev.bench.interleave import Result, Sample
from dev.bench.noise import Noise
from dev.bench.report import Comparison


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_every_contender_computes_the_same_steps() -> None:
    contenders = language.contenders(language.Length(warm_up=1, steps=2))
    losses = {each.name: each.run()["early_loss"] for each in contenders}
    assert max(losses.values()) - min(losses.values()) < language.LOSS_BAND, losses


@pytest.mark.parametrize(("loss", "is_same"), [(3.51, True), (3.53, False)])
def test_a_table_of_contenders_that_did_other_work_says_so(loss: float, is_same: bool) -> None:
    losses = dict.fromkeys(language._SCRIPTS, 3.5) | {language.LIGHTNING: loss}
    samples = [
        Sample(name, 0, {"early_loss": each}, Noise(1.0, 0.0)) for name, each in losses.items()
    ]
    result = Result(samples)
    table = Comparison("a", "A", result, [*losses], [], language.warning_of(result)).table()
    assert ("**The losses differ by more than 0.02" in table) is not is_same
