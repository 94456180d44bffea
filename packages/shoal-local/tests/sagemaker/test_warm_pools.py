"""Warm pools: a job's instances wait for the next job that matches, and keep its cache."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.sagemaker_account import TRAINING_IMAGE, Account, until

PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/reserved"
COUNT = (
    'echo "$TRAINING_JOB_NAME" >> "$SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY/jobs";'
    " cat /opt/ml/sagemaker/warmpoolcache/jobs > /opt/ml/model/jobs"
)


def pooled(account: Account, name: str, script: str = COUNT, **resources: Any) -> dict[str, Any]:
    """Run a script as a training job whose volume size is that of this test's pools."""
    algorithm = {
        "TrainingImage": TRAINING_IMAGE,
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["/bin/bash", "-c", script],
    }
    request = account.training(name, AlgorithmSpecification=algorithm)
    pool = {"KeepAlivePeriodInSeconds": 3600, "VolumeSizeInGB": 7}
    request["ResourceConfig"] |= pool | resources
    account.sagemaker.create_training_job(**request)
    return account.training_ended(name)


def described(account: Account, name: str) -> dict[str, Any]:
    job = account.sagemaker.describe_training_job(TrainingJobName=name)
    return dict(job["WarmPoolStatus"])


def keep(account: Account, name: str, seconds: int) -> None:
    account.sagemaker.update_training_job(
        TrainingJobName=name, ResourceConfig={"KeepAlivePeriodInSeconds": seconds}
    )


@pytest.fixture(scope="module")
def reused(account: Account) -> dict[str, Any]:
    """The second of two jobs that match."""
    assert pooled(account, "pool-1", f"{COUNT}; exit 3")["TrainingJobStatus"] == "Failed"
    assert described(account, "pool-1") == {"Status": "Available"}
    return pooled(account, "pool-2")


def test_a_job_that_matches_takes_the_pool_with_its_cache(
    account: Account, reused: dict[str, Any]
) -> None:
    first = described(account, "pool-1")
    assert (first["Status"], first["ReusedByJob"]) == ("Reused", "pool-2")
    assert first["ResourceRetainedBillableTimeInSeconds"] >= 0
    assert account.model_files(reused) == {"jobs": "pool-1\npool-2\n"}


def test_another_size_of_volume_and_another_pool_do_not_match(
    account: Account, reused: dict[str, Any]
) -> None:
    other = pooled(account, "pool-3", VolumeSizeInGB=8)
    assert account.model_files(other) == {"jobs": "pool-3\n"}
    assert described(account, "pool-2")["Status"] == "Available"
    filters = {"WarmPoolStatusEquals": "Available", "NameContains": "pool-"}
    listed = account.sagemaker.list_training_jobs(**filters)["TrainingJobSummaries"]
    assert [each["TrainingJobName"] for each in listed] == ["pool-2", "pool-3"]


def test_a_pool_ends_with_its_period_and_is_not_changed_afterwards(account: Account) -> None:
    for name, period_s in (("ended", 0), ("passing", 1)):
        pooled(account, name, VolumeSizeInGB=10)
        keep(account, name, period_s)
    assert described(account, "ended")["Status"] == "Terminated"
    until(lambda: described(account, "passing")["Status"], lambda status: status == "Terminated")
    assert described(account, "passing")["ResourceRetainedBillableTimeInSeconds"] == 1
    with pytest.raises(ClientError, match=r"ValidationException.*passing is not Available"):
        keep(account, "passing", 3600)


def test_a_training_plan_is_described_and_listed(account: Account) -> None:
    job = pooled(account, "planned", "true", TrainingPlanArn=PLAN, KeepAlivePeriodInSeconds=0)
    assert job["ResourceConfig"]["TrainingPlanArn"] == PLAN
    assert "WarmPoolStatus" not in job
    listed = account.sagemaker.list_training_jobs(TrainingPlanArnEquals=PLAN)
    assert [each["TrainingPlanArn"] for each in listed["TrainingJobSummaries"]] == [PLAN]
