"""Contenders alternate, and ratios stay within a round."""

from __future__ import annotations

import json
from pathlib import Path

from dev.bench.rounds import Column, Contender, Metrics, compare


def test_contenders_alternate_and_ratios_stay_within_a_round(tmp_path: Path) -> None:
    turns: list[str] = []
    speeds = {"ours": [20.0, 90.0, 40.0], "theirs": [10.0, 30.0, 20.0]}

    def contender(name: str) -> Contender:
        def measure() -> Metrics:
            turns.append(name)
            return {"speed": speeds[name].pop(0)}

        return Contender(name, measure)

    columns = [Column("speed", "speed", digits=0), Column("over theirs", "speed", "theirs")]
    both = [contender("ours"), contender("theirs")]
    comparison = compare("training", "Training", both, columns, rounds=3)
    assert turns == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert "| ours | 40 (20-90) | 2.00 (2.00-3.00) |" in comparison.table()
    comparison.write(tmp_path)
    assert json.loads((tmp_path / "training.json").read_text())["machine"]["cores"]
