"""Rules of the section `serving`, and the sum of its waits; each broken rule is a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.settings.sections.serving import Serving, timeout_s, waits_s
from tests.settings.environment_file import lines_with
from tests.settings.releases import CONTENT


def test_a_release_of_another_region_is_refused_where_it_would_be_served(tmp_path: Path) -> None:
    elsewhere = CONTENT | {
        "model_package_arn": CONTENT["model_package_arn"].replace("us-east-1", "eu-west-1")
    }
    (line,) = lines_with(tmp_path, {"serving": {}, "release": elsewhere})
    assert "release.model_package_arn" in line
    assert "is in eu-west-1, and SageMaker serves what lies in its own region, us-east-1" in line
    assert lines_with(tmp_path, {"release": elsewhere}) == []


@pytest.mark.parametrize(
    ("traffic", "waits"),
    [
        ({"type": "all_at_once", "wait_s": 300}, 600),
        ({"type": "canary", "wait_s": 300}, 900),
        ({"type": "linear", "percent": 50, "wait_s": 300}, 900),
        ({"type": "linear", "percent": 30, "wait_s": 300}, 1500),
    ],
)
def test_a_deployment_may_take_all_its_waits_and_half_an_hour(
    traffic: dict[str, Any], waits: int
) -> None:
    serving = Serving.model_validate({"traffic": traffic, "bake_s": 600})
    assert (waits_s(serving), timeout_s(serving)) == (waits, waits + 1800)
