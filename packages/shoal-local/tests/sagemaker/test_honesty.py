"""The emulator never claims success: a status that no exit code and no artifact stand behind would
be seen here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from local_kit.sagemaker_account import BUCKET, Account, until
from shoal_local.processes import ProcessRegistry, started_at
from shoal_local.sagemaker.jobs.base.job import Ending, EndReason
from shoal_local.sagemaker.settings import Settings
from tests.sagemaker.conftest import Services


def hanging(state_dir: Path, job: str) -> None:
    """Wait until the job's script ignores SIGTERM: it prints that it hangs from then on."""
    log = state_dir / "sagemaker-jobs" / f"training-{job}" / "log.txt"
    until(lambda: log.exists() and log.read_text(), lambda text: text and "hanging" in text)


def test_closing_the_service_kills_at_once_and_leaves_no_process(
    account: Account, second_service: Services, tmp_path: Path
) -> None:
    service = second_service(Settings())
    request = account.training("open", hyperparameters={"do": "hang"})
    service.handle("CreateTrainingJob", request, "caller")
    hanging(tmp_path, "open")
    running = ProcessRegistry(tmp_path).alive()
    service.close()
    assert (len(running), [started_at(pid) for pid in running]) == (1, [None])


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ({"algo-1": 0}, 0),
        ({"algo-1": 3}, 3),
        ({"algo-1": None, "algo-2": 5}, 5),
        ({"algo-1": 0, "algo-2": None}, 137),
        ({}, 137),
    ],
)
def test_only_hosts_that_all_exited_with_0_are_a_success(
    codes: dict[str, int | None], code: int
) -> None:
    assert Ending(EndReason.EXITED, codes).exit_code == code


def test_an_upload_that_is_refused_fails_the_job(account: Account) -> None:
    nowhere = {
        "S3Uri": f"s3://{BUCKET}-that-nobody-made/out",
        "LocalPath": "/opt/ml/processing/report",
        "S3UploadMode": "EndOfJob",
    }
    outputs = {"Outputs": [{"OutputName": "report", "S3Output": nowhere}]}
    job = account.process(
        "no-bucket", "date > /opt/ml/processing/report/date", ProcessingOutputConfig=outputs
    )
    assert job["ProcessingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith(
        f"ClientError: Could not upload to s3://{BUCKET}-that-nobody-made/out/date"
    )
