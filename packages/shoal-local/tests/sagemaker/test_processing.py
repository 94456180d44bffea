"""Processing jobs: Completed means that the command ended well and every output was uploaded."""

from __future__ import annotations

import os
from functools import partial

import pytest

from local_kit.sagemaker_account import BUCKET, Account, command_lines, processing_input, until

INPUT = "/opt/ml/processing/input"
OUTPUT = "/opt/ml/processing/report"


def test_a_job_reads_its_inputs_writes_its_outputs_and_nothing_of_it_is_left(
    account: Account,
) -> None:
    """A single object keeps its name, and the container cannot write to this machine."""
    command = f"sleep 43{os.getpid()}"  # no other run of the tests on this machine has it
    inputs = [
        processing_input(f"s3://{BUCKET}/data/train/", f"{INPUT}/data", "data"),
        processing_input(f"s3://{BUCKET}/data/train/one.txt", f"{INPUT}/one", "one"),
    ]
    script = (
        "cd /opt/ml/processing; cat input/data/deep/two.txt > report/two.txt;"
        " cp input/one/one.txt report;"
        " touch /usr/local/mark && echo wrote > report/mark || echo refused > report/mark;"
        f" echo all good > ../output/message; setsid {command} & exit 0"
    )
    job = account.process("reads", script, ProcessingInputs=inputs)
    assert job["ProcessingJobStatus"] == "Completed", job
    assert job["ExitMessage"] == "all good\n"
    for name, content in (("two.txt", b"2"), ("one.txt", b"1"), ("mark", b"refused\n")):
        assert account.get(f"s3://{BUCKET}/reports/reads/{name}") == content
    assert command not in command_lines()


@pytest.mark.parametrize(
    ("name", "script", "uri", "reason"),
    [
        (
            "no-input",
            f"date > {OUTPUT}/date",
            f"s3://{BUCKET}/not/there",
            'ClientError: Data download failed:No S3 objects found under S3 URL "s3://',
        ),
        (
            "exits",
            "echo out of luck; exit 7",
            f"s3://{BUCKET}/data/train/",
            "AlgorithmError: out of luck, exit code: 7",
        ),
        (
            "no-output",
            "true",
            f"s3://{BUCKET}/data/train/",
            f"ClientError: Data upload failed: nothing was found at {OUTPUT} for the output report",
        ),
    ],
)
def test_a_job_without_input_success_or_output_fails_with_its_reason(
    account: Account, name: str, script: str, uri: str, reason: str
) -> None:
    inputs = [processing_input(uri, f"{INPUT}/data")]
    job = account.process(name, script, ProcessingInputs=inputs)
    assert job["ProcessingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith(reason)


def test_a_stopped_job_ends_as_stopped(account: Account) -> None:
    account.start_processing("stops", "sleep 600")
    look = partial(account.sagemaker.describe_processing_job, ProcessingJobName="stops")
    until(look, lambda job: "ProcessingStartTime" in job)
    account.sagemaker.stop_processing_job(ProcessingJobName="stops")
    assert account.processing_ended("stops")["ProcessingJobStatus"] == "Stopped"
