"""Processing jobs: Completed means that the command ended well and every output was uploaded."""

from __future__ import annotations

import os
from functools import partial

from local_kit.sagemaker_account import BUCKET, Account, command_lines, processing_input, until

OUTPUT = "/opt/ml/processing/report"


def test_inputs_are_at_their_local_paths_and_outputs_go_to_s3(account: Account) -> None:
    data = processing_input(f"s3://{BUCKET}/data/train/", "/opt/ml/processing/input/data")
    job = account.process(
        "reads",
        f"cat /opt/ml/processing/input/data/deep/two.txt > {OUTPUT}/two.txt",
        ProcessingInputs=[data],
    )
    assert job["ProcessingJobStatus"] == "Completed", job
    assert account.get(f"s3://{BUCKET}/reports/reads/two.txt") == b"2"


def test_a_single_object_keeps_its_name(account: Account) -> None:
    one = processing_input(f"s3://{BUCKET}/data/train/one.txt", "/opt/ml/processing/input/one")
    job = account.process(
        "one-object", f"cp /opt/ml/processing/input/one/one.txt {OUTPUT}/", ProcessingInputs=[one]
    )
    assert job["ProcessingJobStatus"] == "Completed"


def test_a_missing_input_fails_the_job_with_aws_words(account: Account) -> None:
    nothing = processing_input(f"s3://{BUCKET}/not/there", "/opt/ml/processing/input/data")
    job = account.process("no-input", f"date > {OUTPUT}/date", ProcessingInputs=[nothing])
    assert job["ProcessingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith(
        f'ClientError: Data download failed:No S3 objects found under S3 URL "s3://{BUCKET}/not/there"'
    )


def test_an_exit_code_fails_the_job_with_the_last_lines_of_its_log(account: Account) -> None:
    job = account.process("exits", "echo out of luck; exit 7")
    assert (job["ProcessingJobStatus"], job["FailureReason"]) == (
        "Failed",
        "AlgorithmError: out of luck, exit code: 7",
    )


def test_an_output_without_files_fails_the_job(account: Account) -> None:
    job = account.process("no-output", "true")
    assert job["ProcessingJobStatus"] == "Failed"
    assert (
        "nothing was found at /opt/ml/processing/report for the output report"
        in job["FailureReason"]
    )


def test_the_container_tells_its_exit_message(account: Account) -> None:
    job = account.process(
        "message", f"date > {OUTPUT}/date; echo all good > /opt/ml/output/message"
    )
    assert job["ExitMessage"] == "all good\n"


def test_the_container_cannot_write_to_this_machine(account: Account) -> None:
    job = account.process(
        "writes",
        f"touch /usr/local/mark && echo wrote > {OUTPUT}/mark || echo refused > {OUTPUT}/mark",
    )
    assert job["ProcessingJobStatus"] == "Completed"
    assert account.get(f"s3://{BUCKET}/reports/writes/mark") == b"refused\n"


def test_nothing_that_a_job_started_outlives_it(account: Account) -> None:
    command = f"sleep 43{os.getpid()}"  # no other run of the tests on this machine has it
    account.process("leaves", f"date > {OUTPUT}/date; setsid {command} & exit 0")
    assert command not in command_lines()


def test_a_stopped_job_ends_as_stopped(account: Account) -> None:
    account.start_processing("stops", "sleep 600")
    look = partial(account.sagemaker.describe_processing_job, ProcessingJobName="stops")
    until(look, lambda job: "ProcessingStartTime" in job)
    account.sagemaker.stop_processing_job(ProcessingJobName="stops")
    assert account.processing_ended("stops")["ProcessingJobStatus"] == "Stopped"
