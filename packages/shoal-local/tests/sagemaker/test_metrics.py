"""Metrics that regular expressions find in the lines of a training job."""

from __future__ import annotations

from shoal_local.sagemaker.jobs.training.metrics import Metrics


def test_a_match_by_an_alternative_without_the_first_group_has_no_value() -> None:
    values: list[tuple[str, float]] = []
    definition = {"Name": "loss", "Regex": r"loss=(\d+)|accuracy=(\d+)"}
    metrics = Metrics([definition], lambda name, value: values.append((name, value)))
    for line in ("loss=2", "accuracy=1"):
        metrics.see(line)
    assert values == [("loss", 2.0)]
    assert [each["Value"] for each in metrics.final()] == [2.0]
