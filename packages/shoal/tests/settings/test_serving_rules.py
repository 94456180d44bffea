"""Rules of the section `serving`, and the sum of its waits; each broken rule is a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.settings.sections.serving import Serving, timeout_s, waits_s
from tests.settings.environment_file import lines_with
from tests.settings.releases import CONTENT

SCALING = {"min": 2, "max": 4, "invocations_per_instance": 600}
AT_ONCE = {"traffic": {"type": "all_at_once"}}

BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"instance_count": 0}, "serving.instance_count = 0: must be at least 1"),
    (
        {"instance_count": 1, **AT_ONCE},
        "serving.instance_count = 1: one instance is one availability zone, and",
    ),
    (
        {"instance_type": "m5.xlarge"},
        'serving.instance_type = "m5.xlarge": must be an instance type of SageMaker',
    ),
    (
        {"traffic": {"type": "rolling"}},
        'serving.traffic.type = "rolling": must be one of: canary, linear, all_at_once',
    ),
    ({"traffic": {"percent": 51}}, "serving.traffic.percent = 51: must be at most 50"),
    (
        {"traffic": {"type": "linear", "percent": 5}},
        "serving.traffic.percent = 5: a linear step is 10 to 50 percent; use at least 10",
    ),
    ({"traffic": {"wait_s": 3601}}, "serving.traffic.wait_s = 3601: must be at most 3600"),
    (
        {"traffic": {"type": "linear", "percent": 10, "wait_s": 3600}},
        "serving.traffic.wait_s = 3600: traffic and bake_s wait 33000 s",
    ),
    (
        {"bake_s": 120},
        (
            "serving.bake_s = 120: is too short for the alarms, which ring after 2 min of"
            " measurements; use at least 180"
        ),
    ),
    (
        {"timeout_s": 900},
        "serving.timeout_s = 900: is not more than the 900 s that traffic and bake_s wait together",
    ),
    ({"timeout_s": 599}, "serving.timeout_s = 599: must be at least 600"),
    (
        {"alarms": {"error_rate_percent": 0}},
        "serving.alarms.error_rate_percent = 0: must be more than 0",
    ),
    ({"alarms": {"p99_latency_ms": 0.5}}, "serving.alarms.p99_latency_ms = 0.5: "),
    ({"autoscaling": SCALING | {"min": 5}}, "serving.autoscaling.min = 5: is more than max (4)"),
    (
        {"autoscaling": SCALING, "instance_count": 5},
        "serving.instance_count = 5: is not between autoscaling.min (2) and max (4)",
    ),
    (
        {"autoscaling": SCALING | {"min": 1}, **AT_ONCE},
        "serving.autoscaling.min = 1: one instance is one availability zone",
    ),
    (
        {"autoscaling": {"min": 2, "max": 4}},
        "serving.autoscaling.invocations_per_instance: the key is missing",
    ),
    ({"data_capture": {"percent": 0}}, "serving.data_capture.percent = 0: must be at least 1"),
    ({"serverless": {"memory_mb": 2000}, **AT_ONCE}, "serving.serverless.memory_mb = 2000: "),
    (
        {"serverless": {"max_concurrency": 201}, **AT_ONCE},
        "serving.serverless.max_concurrency = 201: must be at most 200",
    ),
    (
        {"serverless": {}},
        'serving.traffic.type = "canary": a part of the capacity is a part of the instances',
    ),
    (
        {"serverless": {}, "instance_count": 2, **AT_ONCE},
        "serving.instance_count = 2: serverless inference has none",
    ),
    (
        {"serverless": {}, "instance_type": "ml.m5.large", **AT_ONCE},
        'serving.instance_type = "ml.m5.large": serverless inference has none',
    ),
    (
        {"serverless": {}, "inference_ami_version": "any", **AT_ONCE},
        "serving.inference_ami_version: serverless inference has none",
    ),
    (
        {"serverless": {}, "autoscaling": SCALING, **AT_ONCE},
        "serving.autoscaling: serverless inference has none",
    ),
    (
        {"serverless": {}, "data_capture": {}, **AT_ONCE},
        "serving.data_capture: serverless inference has none",
    ),
    ({"replicas": 2}, "serving.replicas: there is no such key here"),
]


@pytest.mark.parametrize(("serving", "line"), BROKEN, ids=[line[:60] for _, line in BROKEN])
def test_a_broken_rule_is_one_line(tmp_path: Path, serving: dict[str, Any], line: str) -> None:
    (problem,) = lines_with(tmp_path, {"serving": serving})
    assert line in problem


@pytest.mark.parametrize(
    "serving",
    [
        {},
        {"autoscaling": SCALING, "data_capture": {}, "timeout_s": 901},
        {"traffic": {"type": "linear", "percent": 50, "wait_s": 3600}, "bake_s": 3600},
        {"serverless": {}, **AT_ONCE},
    ],
)
def test_serving_that_can_be_is_accepted(tmp_path: Path, serving: dict[str, Any]) -> None:
    assert lines_with(tmp_path, {"serving": serving}) == []


def test_a_throw_away_environment_may_serve_from_one_instance(tmp_path: Path) -> None:
    assert (
        lines_with(tmp_path, {"protect": False, "serving": {"instance_count": 1, **AT_ONCE}}) == []
    )


def test_one_instance_cannot_take_traffic_in_steps(tmp_path: Path) -> None:
    (line,) = lines_with(tmp_path, {"protect": False, "serving": {"instance_count": 1}})
    assert 'serving.traffic.type = "canary": a step is at most half of the instances' in line


def test_a_release_of_another_region_is_refused_where_it_would_be_served(tmp_path: Path) -> None:
    elsewhere = CONTENT | {
        "model_package_arn": CONTENT["model_package_arn"].replace("us-east-1", "eu-west-1")
    }
    (line,) = lines_with(tmp_path, {"serving": {}, "release": elsewhere})
    assert "release.model_package_arn" in line
    assert "is in eu-west-1, and SageMaker serves what lies in its own region, us-east-1" in line
    assert lines_with(tmp_path, {"release": elsewhere}) == []


def test_where_cloudformation_makes_no_endpoints_nothing_can_be_served(tmp_path: Path) -> None:
    zones = {"network": {"training_az_id": "mec1-az1", "hosting_az_ids": ["mec1-az1", "mec1-az2"]}}
    (line,) = lines_with(tmp_path, {"region": "me-central-1", "serving": {}, **zones})
    assert (
        "serving: needs AWS::SageMaker::Endpoint, which CloudFormation does not have in"
        " me-central-1" in line
    )


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
