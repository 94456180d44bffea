"""Training jobs: statuses, reasons, artifacts and logs come from what really ran."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest

from local_kit.sagemaker_account import BUCKET, PROGRAMS, Account, archive, channel, until

GROUP = "/aws/sagemaker/TrainingJobs"


SMDDP = {"sagemaker_distributed_dataparallel_enabled": "true", "backend": "smddp"}
SDKS_DEFAULTS: dict[str, Any] = {
    "DebugHookConfig": {"S3OutputPath": f"s3://{BUCKET}/debug", "CollectionConfigurations": []},
    "ProfilerConfig": {"S3OutputPath": f"s3://{BUCKET}/debug", "DisableProfiler": False},
}
"""What SageMaker's SDK v2 sends with a job of which nobody said anything."""
P4D = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}


@pytest.fixture(scope="module")
def succeeded(account: Account) -> dict[str, Any]:
    algorithm = account.training("x")["AlgorithmSpecification"] | {
        "MetricDefinitions": [{"Name": "loss", "Regex": r"loss=([0-9.]+)"}]
    }
    return account.train(
        "succeeds",
        InputDataConfig=[channel(f"s3://{BUCKET}/data/train/")],
        AlgorithmSpecification=algorithm,
        **SDKS_DEFAULTS,
    )


@pytest.fixture(scope="module")
def failed(account: Account) -> dict[str, Any]:
    return account.train("fails", hyperparameters={"do": "fail"})


def test_a_job_that_succeeds_leaves_its_model_its_statuses_and_its_last_metrics(
    account: Account, succeeded: dict[str, Any]
) -> None:
    assert succeeded["TrainingJobStatus"] == "Completed"
    assert account.model_files(succeeded) == {"model.txt": "deep one.txt two.txt"}
    assert succeeded["OutputDataConfig"]["KmsKeyId"] == ""
    statuses = [each["Status"] for each in succeeded["SecondaryStatusTransitions"]]
    assert statuses == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    (metric,) = succeeded["FinalMetricDataList"]
    assert (metric["MetricName"], metric["Value"]) == ("loss", 0.125)


def test_what_the_sdk_sends_by_default_is_described_and_the_log_says_that_it_does_nothing(
    account: Account, succeeded: dict[str, Any]
) -> None:
    assert succeeded.items() >= SDKS_DEFAULTS.items()
    assert succeeded["ProfilingStatus"] == "Disabled"
    assert account.keys("debug/") == []
    notice = account.log(GROUP, "succeeds/emulator")
    assert "DebugHookConfig and ProfilerConfig: nothing is recorded here" in notice


@pytest.mark.usefixtures("succeeded")
def test_every_value_of_a_metric_reaches_cloudwatch(account: Account) -> None:
    assert min(account.measured(GROUP, "loss", "Minimum", TrainingJobName="succeeds")) == 0.125
    assert sum(account.measured(GROUP, "loss", "SampleCount", TrainingJobName="succeeds")) == 2


@pytest.mark.usefixtures("succeeded")
def test_the_log_reaches_cloudwatch_line_by_line(account: Account) -> None:
    assert "epoch=2 loss=0.125" in account.log(GROUP, "succeeds/algo-1-")


@pytest.mark.usefixtures("succeeded")
def test_a_name_can_be_used_once(account: Account) -> None:
    in_use = account.sagemaker.exceptions.ResourceInUse
    with pytest.raises(in_use, match="a training job with this name already exists"):
        account.sagemaker.create_training_job(**account.training("succeeds"))


def test_a_script_that_fails_fails_its_job_with_the_toolkits_reason_and_leaves_no_model(
    account: Account, failed: dict[str, Any]
) -> None:
    assert (failed["TrainingJobStatus"], failed["SecondaryStatus"]) == ("Failed", "Failed")
    assert re.fullmatch(
        r"AlgorithmError: ExecuteUserScriptError:\nExitCode 1\n.*on purpose.*, exit code: 1",
        failed["FailureReason"],
        re.DOTALL,
    )
    assert account.keys("out/fails/") == []


@pytest.mark.usefixtures("succeeded", "failed")
def test_every_status_agrees_with_the_exit_code_that_the_pod_wrote_and_the_model_in_s3(
    account: Account,
) -> None:
    """Exit codes and archives are evidence besides the statuses: they show a failed job marked
    Completed.
    """
    folder = account.state_dir
    for name, status in (("succeeds", "Completed"), ("fails", "Failed")):
        codes_file = folder / "sagemaker-jobs" / f"training-{name}" / "exit-codes.json"
        document_file = folder / "sagemaker" / "training-job" / f"{name}.json"
        has_exited_with_0 = set(json.loads(codes_file.read_text()).values()) == {0}
        has_model = account.keys(f"out/{name}/output/model.tar.gz") != []
        assert json.loads(document_file.read_text())["TrainingJobStatus"] == status
        assert has_exited_with_0 is has_model is (status == "Completed")


def test_an_empty_model_folder_completes_without_an_archive(account: Account) -> None:
    job = account.train("empty", hyperparameters={"do": "empty"})
    assert job["TrainingJobStatus"] == "Completed"
    assert account.keys("out/empty") == []


def test_a_code_archive_that_is_no_archive_fails_the_job(account: Account) -> None:
    uri = account.put("code/broken.tar.gz", b"this is not gzip")
    job = account.train("broken-code", hyperparameters={"sagemaker_submit_directory": uri})
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("AlgorithmError: Framework Error:")


def test_a_job_that_exceeds_max_runtime_is_stopped_and_keeps_its_model(account: Account) -> None:
    # long enough for the script to write its file on a busy machine too
    limit = {"MaxRuntimeInSeconds": 20}
    job = account.train("too-long", hyperparameters={"do": "wait"}, StoppingCondition=limit)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")
    assert account.model_files(job) == {"before.txt": "written before the stop"}


def test_a_stopped_job_ends_as_stopped_after_stopping(account: Account) -> None:
    request = account.training("stopped", hyperparameters={"do": "wait"})
    account.sagemaker.create_training_job(**request)
    look = partial(account.sagemaker.describe_training_job, TrainingJobName="stopped")
    until(look, lambda job: job["SecondaryStatus"] == "Training")
    account.sagemaker.stop_training_job(TrainingJobName="stopped")
    assert look()["TrainingJobStatus"] in {"Stopping", "Stopped"}
    assert account.training_ended("stopped")["SecondaryStatus"] == "Stopped"


def test_checkpoints_are_synced_and_a_second_job_resumes_from_them(account: Account) -> None:
    config = {"S3Uri": f"s3://{BUCKET}/checkpoints/resumed"}
    for name in ("first-part", "second-part"):
        account.train(name, hyperparameters={"do": "checkpoint"}, CheckpointConfig=config)
    assert account.get(f"s3://{BUCKET}/checkpoints/resumed/step.txt") == b"2"


@pytest.mark.nightly
def test_smddp_runs_two_ranks_through_mpirun_and_smddprun(account: Account) -> None:
    job = account.train("smddp", "ranks.py", hyperparameters=SMDDP, ResourceConfig=P4D)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert account.model_files(job) == {"model.txt": "2 3"}


@pytest.mark.nightly
def test_a_rank_that_is_killed_fails_the_job(account: Account) -> None:
    job = account.train(
        "killed-rank", "ranks.py", hyperparameters=SMDDP | {"kill-rank": "1"}, ResourceConfig=P4D
    )
    assert job["TrainingJobStatus"] == "Failed"
    assert account.keys("out/killed-rank") == []


def test_torchrun_runs_on_two_hosts(account: Account) -> None:
    torchrun = {"sagemaker_torch_distributed_enabled": "true"}
    job = account.train(
        "two-hosts", "ranks.py", hyperparameters=torchrun, ResourceConfig=P4D | {"InstanceCount": 2}
    )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert account.model_files(job) == {"model.txt": "4 10"}


def test_a_script_imports_what_awss_image_brings_and_its_requirements_are_met(
    account: Account,
) -> None:
    script = (
        "import os, packaging, pandas, PIL, requests, sklearn, tqdm, yaml\n"
        "open(os.environ['SM_MODEL_DIR'] + '/model.txt', 'w').write(pandas.__name__)\n"
    )
    files = {"imports.py": script.encode(), "requirements.txt": b"pandas\nrequests>=2\n"}
    uri = account.put("code/imports.tar.gz", archive(files))
    changed = {"sagemaker_program": "imports.py", "sagemaker_submit_directory": uri}
    job = account.train("imports", hyperparameters=changed)
    assert account.model_files(job) == {"model.txt": "pandas"}


def test_two_jobs_at_once_do_not_see_each_other(account: Account) -> None:
    code = archive({"train.py": (PROGRAMS / "port.py").read_bytes()})
    uri = account.put("code/port.tar.gz", code)
    for name in ("twin-1", "twin-2"):
        account.sagemaker.create_training_job(
            **account.training(name, hyperparameters={"sagemaker_submit_directory": uri})
        )
    models = [account.model_files(account.training_ended(name)) for name in ("twin-1", "twin-2")]
    assert models == [{"model.txt": "twin-1"}, {"model.txt": "twin-2"}]
