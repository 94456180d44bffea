"""What a capacity file says of training plans; the product's tests run its days."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal_local.errors import AwsError
from shoal_local.sagemaker.settings import Settings
from tests.sagemaker.conftest import Services

P5, P4D = "ml.p5.48xlarge", "ml.p4d.24xlarge"
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p5"


@pytest.mark.parametrize(
    ("row", "status"),
    [({}, "Active"), ({"from_s": 3600}, "Scheduled"), ({"until_s": 0}, "Expired")],
)
def test_a_plan_and_offerings_are_described(
    second_service: Services, tmp_path: Path, row: dict[str, Any], status: str
) -> None:
    offering = {"TrainingPlanOfferingId": "a", "TargetResources": ["training-job"]}
    plan = {"plan": {"TotalInstanceCount": 4}, "count": 1} | row
    day = {PLAN: plan, P5: {"offerings": [offering]}}
    file = tmp_path / "capacity.json"
    file.write_text(json.dumps(day))
    service = second_service(Settings(capacity=file))
    told = service.handle("DescribeTrainingPlan", {"TrainingPlanName": "p5"}, "caller")
    numbers = [told[key] for key in ("AvailableInstanceCount", "TotalInstanceCount")]
    assert (told["Status"], numbers) == (status, [1, 4])
    for kind, expected in ((P5, [offering]), (P4D, [])):
        answer = service.handle("SearchTrainingPlanOfferings", {"InstanceType": kind}, "caller")
        assert answer["TrainingPlanOfferings"] == expected
    with pytest.raises(AwsError, match="no training plan of that name"):
        service.handle("DescribeTrainingPlan", {"TrainingPlanName": "other"}, "caller")
