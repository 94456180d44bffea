"""Capacity days: a file says which instances there are, and jobs end as AWS documents."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from local_kit.sagemaker_account import TRAINING_IMAGE, Account, until
from shoal_local.errors import AwsError
from shoal_local.sagemaker.settings import Settings
from tests.sagemaker.conftest import Services

P5, P4D, CPU, OTHER = "ml.p5.48xlarge", "ml.p4d.24xlarge", "ml.m5.xlarge", "ml.c5.xlarge"
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p5"
COUNTED = [
    {"InstanceType": P5, "InstanceCount": 2},
    {"InstanceType": P4D, "InstanceCount": 1},
]
OVER = {"count": 1, "until_s": 0}
NONE, LATER, NUMBERS = {"count": 0}, {"count": 1, "from_s": 2400}, count(1)
BOTH = [{"InstanceType": P5}, {"InstanceType": P4D}]
PLANNED = [{"InstanceType": P5, "TrainingPlanArns": [PLAN]}, {"InstanceType": P4D}]
SCRIPT = {
    "TrainingImage": TRAINING_IMAGE,
    "TrainingInputMode": "File",
    "ContainerEntrypoint": ["/bin/bash", "-c", "true"],
}


def request_of(account: Account, listed: Any, pending_s: int = 0) -> dict[str, Any]:
    limit = {"MaxPendingTimeInSeconds": pending_s} if pending_s else {}
    key = "InstanceType" if isinstance(listed, str) else "InstancePreferences"
    count = {} if listed is COUNTED else {"InstanceCount": 1}
    return account.training(
        f"day-{next(NUMBERS)}",
        AlgorithmSpecification=SCRIPT,
        ResourceConfig={key: listed, **count, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 60} | limit,
    )


@pytest.mark.parametrize(
    ("day", "listed", "pending_s", "status", "selected"),
    [
        pytest.param({}, BOTH, 0, "Completed", P5, id="first type"),
        pytest.param({P5: NONE}, BOTH, 0, "Completed", P4D, id="second type"),
        pytest.param({P5: NONE, P4D: NONE}, BOTH, 0, "Failed", None, id="no type"),
        pytest.param({P5: NONE, P4D: NONE}, BOTH, 1800, "Stopped", None, id="pending limit"),
        pytest.param({P5: NONE, P4D: LATER}, BOTH, 3600, "Completed", P4D, id="after 40 minutes"),
        pytest.param({CPU: NONE, OTHER: NONE}, None, 1800, "Failed", None, id="CPUs do not wait"),
        pytest.param({P4D: NONE}, P4D, 0, "Failed", None, id="one type without capacity"),
        pytest.param({PLAN: {"count": 1}, P5: NONE}, PLANNED, 0, "Completed", P5, id="plan"),
        pytest.param({PLAN: NONE}, PLANNED, 0, "Completed", P4D, id="plan full"),
        pytest.param({PLAN: LATER}, PLANNED, 0, "Completed", P4D, id="plan scheduled"),
        pytest.param({PLAN: LATER, P4D: NONE}, PLANNED, 3600, "Completed", P5, id="plan begins"),
        pytest.param({PLAN: OVER}, PLANNED, 0, "Completed", P4D, id="plan expired"),
        pytest.param({P5: {"count": 1}}, COUNTED, 0, "Completed", P4D, id="count per type"),
    ],
)
def test_a_day_ends_as_documented(
    account: Account,
    second_service: Services,
    tmp_path: Path,
    day: Any,
    listed: Any,
    pending_s: int,
    status: str,
    selected: str | None,
) -> None:
    listed = listed or [{"InstanceType": CPU}, {"InstanceType": OTHER}]
    file = tmp_path / "capacity.json"
    file.write_text(json.dumps(day))
    service = second_service(Settings(capacity=file, hosting_speed=1200.0))
    request = request_of(account, listed, pending_s)
    service.handle("CreateTrainingJob", request, "caller")
    name = {"TrainingJobName": request["TrainingJobName"]}
    job: dict[str, Any] = until(
        lambda: service.handle("DescribeTrainingJob", name, "caller"),
        lambda each: each["TrainingJobStatus"] in {"Completed", "Failed", "Stopped"},
    )
    assert job["TrainingJobStatus"] == status
    resources = job["ResourceConfig"]
    assert resources.get("SelectedInstanceType") == selected
    assert resources.get("SelectedInstanceCount") == (1 if selected else None)
    assert ("InstanceType" in resources) is isinstance(listed, str)
    statuses = [each["Status"] for each in job["SecondaryStatusTransitions"]]
    assert ("Pending" in statuses) is (pending_s > 0 and P5 in str(listed))
    if status == "Failed":
        assert job["FailureReason"].startswith("CapacityError: Unable to provision")
    if status == "Stopped":
        assert statuses[-1] == "MaxWaitTimeExceeded"


def test_one_quota_that_is_short_rejects_the_list(
    account: Account, second_service: Services, tmp_path: Path
) -> None:
    file = tmp_path / "capacity.json"
    file.write_text(json.dumps({P4D: {"quota": 0}}))
    service = second_service(Settings(capacity=file))
    with pytest.raises(AwsError, match=f"'{P4D} for training job usage' is 0 Inst") as caught:
        service.handle("CreateTrainingJob", request_of(account, BOTH), "caller")
    assert caught.value.code == "ResourceLimitExceeded"


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
