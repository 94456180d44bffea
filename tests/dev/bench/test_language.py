"""The bench of the language model still runs with the script and the peers of today."""

from __future__ import annotations

import pytest

from dev.bench import language


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_every_contender_computes_the_same_steps() -> None:
    contenders = language.contenders(language.Length(warm_up=1, steps=2))
    losses = {each.name: each.run()["early_loss"] for each in contenders}
    assert max(losses.values()) - min(losses.values()) < language.LOSS_BAND, losses
