"""Faults for tests: none without the option, exactly the file's with it, and each is recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal_local.errors import EmulatorError
from shoal_local.faults import Faults, rule_of


def faults(folder: Path, *rules: dict[str, Any]) -> Faults:
    file = folder / "faults"
    file.write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    return Faults(file, folder / "faults.jsonl")


def test_without_a_file_nothing_ever_goes_wrong() -> None:
    assert Faults().take("operation", "CreateModel", {}) is None


def test_a_rule_hits_after_those_it_spares_and_as_often_as_it_says(tmp_path: Path) -> None:
    rules = faults(
        tmp_path, {"seam": "operation", "do": "refuse", "name": "Create*", "skip": 1, "times": 2}
    )
    hit = [rules.take("operation", "CreateModel", {}) is not None for _ in range(5)]
    assert hit == [False, True, True, False, False]
    assert rules.take("operation", "DescribeModel", {}) is None


def test_a_rule_of_an_execution_hits_only_what_carries_its_id(tmp_path: Path) -> None:
    rules = faults(tmp_path, {"seam": "operation", "do": "refuse", "execution": "mine"})
    assert rules.take("operation", "CreateModel", {"ModelName": "pipelines-abc-x"}) is None
    rules.began("mine", "abc")
    assert rules.take("operation", "CreateModel", {"ModelName": "pipelines-xyz-x"}) is None
    assert rules.take("operation", "CreateModel", {"ModelName": "pipelines-abc-x"}) is not None


def test_rules_that_come_later_count_once_their_line_is_whole(tmp_path: Path) -> None:
    rules = faults(tmp_path)
    with (tmp_path / "faults").open("a") as stream:
        stream.write('{"seam": "event", ')
        stream.flush()
        assert rules.take("event", "x", {}) is None
        stream.write('"do": "lose"}\n')
    assert rules.take("event", "x", {}) is not None


def test_what_happened_is_written_down(tmp_path: Path) -> None:
    rules = faults(tmp_path, {"seam": "event", "do": "lose", "execution": "mine"})
    rules.happened(rule_of({"seam": "event", "do": "lose", "execution": "mine"}), "x")
    entry = json.loads((tmp_path / "faults.jsonl").read_text())
    assert {key: entry[key] for key in ("execution", "seam", "do", "name")} == {
        "execution": "mine",
        "seam": "event",
        "do": "lose",
        "name": "x",
    }


@pytest.mark.parametrize(
    "rule",
    [
        {"seam": "event", "do": "kill"},
        {"seam": "nowhere", "do": "lose"},
        {"seam": "event", "do": "lose", "x": 1},
    ],
)
def test_what_is_no_fault_is_refused_by_name(rule: dict[str, Any]) -> None:
    with pytest.raises(EmulatorError, match="--faults: "):
        rule_of(rule)
