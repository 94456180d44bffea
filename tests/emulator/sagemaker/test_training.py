"""Training jobs: statuses, reasons, artifacts and logs come from what really ran."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from tests.emulator.sagemaker.account import BUCKET, Account, archive, channel, until

GROUP = "/aws/sagemaker/TrainingJobs"


def test_a_job_that_succeeds_leaves_its_model_in_s3(account: Account) -> None:
    job = account.train("succeeds", InputDataConfig=[channel(f"s3://{BUCKET}/data/train/")])
    assert job["TrainingJobStatus"] == "Completed", job
    assert account.model_files(job) == {"model.txt": "deep one.txt two.txt"}


def test_secondary_statuses_follow_each_other_in_aws_order(account: Account) -> None:
    job = account.train("transitions")
    assert [each["Status"] for each in job["SecondaryStatusTransitions"]] == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert job["TrainingStartTime"] <= job["TrainingEndTime"]


def test_final_metrics_are_the_last_values_that_were_printed(account: Account) -> None:
    algorithm = account.training("x")["AlgorithmSpecification"] | {"MetricDefinitions": [{"Name": "loss", "Regex": r"loss=([0-9.]+)"}]}
    job = account.train("metrics", AlgorithmSpecification=algorithm)
    assert [(each["MetricName"], each["Value"]) for each in job["FinalMetricDataList"]] == [("loss", 0.125)]


def test_the_log_reaches_cloudwatch_line_by_line(account: Account) -> None:
    account.train("logs")
    assert "epoch=2 loss=0.125" in account.log(GROUP, "logs/algo-1-")


def test_a_script_that_fails_fails_its_job_with_the_toolkits_reason(account: Account) -> None:
    job = account.train("fails", hyperparameters={"do": "fail"})
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Failed", "Failed")
    assert job["FailureReason"].startswith("AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage \"ValueError: this script fails")
    assert job["FailureReason"].endswith(", exit code: 1")


def test_a_failed_job_leaves_no_model(account: Account) -> None:
    account.train("fails-without-model", hyperparameters={"do": "fail"})
    assert account.keys("out/fails-without-model") == []


def test_an_empty_model_folder_completes_without_an_archive(account: Account) -> None:
    job = account.train("empty", hyperparameters={"do": "empty"})
    assert job["TrainingJobStatus"] == "Completed"
    assert account.keys("out/empty") == []


def test_a_job_with_a_missing_input_is_refused_before_it_starts(account: Account) -> None:
    request = account.training("no-input", InputDataConfig=[channel(f"s3://{BUCKET}/nothing/here/")])
    with pytest.raises(ClientError, match='No S3 objects found under S3 URL "s3://jobs-of-the-tests/nothing/here/"'):
        account.sagemaker.create_training_job(**request)


def test_a_code_archive_that_is_no_archive_fails_the_job(account: Account) -> None:
    uri = account.put("code/broken.tar.gz", b"this is not gzip")
    job = account.train("broken-code", hyperparameters={"sagemaker_submit_directory": uri})
    assert job["TrainingJobStatus"] == "Failed"
    assert "not a gzip file" in job["FailureReason"]


def test_a_job_that_exceeds_max_runtime_is_stopped_and_keeps_its_model(account: Account) -> None:
    job = account.train("too-long", hyperparameters={"do": "wait"}, StoppingCondition={"MaxRuntimeInSeconds": 4})
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")
    assert account.model_files(job) == {"before.txt": "written before the stop"}


def test_a_stopped_job_ends_as_stopped_after_stopping(account: Account) -> None:
    account.sagemaker.create_training_job(**account.training("stopped", hyperparameters={"do": "wait"}))
    until(lambda: account.sagemaker.describe_training_job(TrainingJobName="stopped"), lambda job: job["SecondaryStatus"] == "Training")
    account.sagemaker.stop_training_job(TrainingJobName="stopped")
    assert account.sagemaker.describe_training_job(TrainingJobName="stopped")["TrainingJobStatus"] in {"Stopping", "Stopped"}
    assert account.training_ended("stopped")["SecondaryStatus"] == "Stopped"


def test_checkpoints_are_synced_and_a_second_job_resumes_from_them(account: Account) -> None:
    config = {"S3Uri": f"s3://{BUCKET}/checkpoints/resumed"}
    for name in ("first-part", "second-part"):
        account.train(name, hyperparameters={"do": "checkpoint"}, CheckpointConfig=config)
    assert account.get(f"s3://{BUCKET}/checkpoints/resumed/step.txt") == b"2"


def test_smddp_runs_two_ranks_through_mpirun_and_smddprun(account: Account) -> None:
    smddp = {"sagemaker_distributed_dataparallel_enabled": "true", "sagemaker_instance_type": "ml.p4d.24xlarge", "backend": "smddp"}
    resources = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    job = account.train("smddp", "ranks.py", hyperparameters=smddp, ResourceConfig=resources)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert account.model_files(job) == {"model.txt": "2 3"}


def test_a_rank_that_is_killed_fails_the_job(account: Account) -> None:
    smddp = {"sagemaker_distributed_dataparallel_enabled": "true", "backend": "smddp", "kill-rank": "1"}
    resources = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    job = account.train("killed-rank", "ranks.py", hyperparameters=smddp, ResourceConfig=resources)
    assert job["TrainingJobStatus"] == "Failed"
    assert account.keys("out/killed-rank") == []


def test_torchrun_runs_on_two_hosts(account: Account) -> None:
    resources = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
    job = account.train("two-hosts", "ranks.py", hyperparameters={"sagemaker_torch_distributed_enabled": "true"}, ResourceConfig=resources)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert account.model_files(job) == {"model.txt": "2 3"}


def test_mpi_on_two_hosts_is_refused_by_name(account: Account) -> None:
    resources = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
    request = account.training("mpi", hyperparameters={"sagemaker_distributed_dataparallel_enabled": "true"}, ResourceConfig=resources)
    with pytest.raises(ClientError, match=r"smdistributed dataparallel \(mpirun\) on more than one host"):
        account.sagemaker.create_training_job(**request)


def test_an_unknown_image_is_refused_by_name(account: Account) -> None:
    algorithm = {"TrainingImage": "1.dkr.ecr.us-east-1.amazonaws.com/mine:latest", "TrainingInputMode": "File"}
    with pytest.raises(ClientError, match=r"does not emulate the image 1\.dkr\.ecr\.us-east-1\.amazonaws\.com/mine:latest"):
        account.sagemaker.create_training_job(**account.training("unknown-image", AlgorithmSpecification=algorithm))


def test_a_name_can_be_used_once(account: Account) -> None:
    account.train("once", hyperparameters={"do": "empty"})
    with pytest.raises(account.sagemaker.exceptions.ResourceInUse, match="a training job with this name already exists"):
        account.sagemaker.create_training_job(**account.training("once"))


def test_two_jobs_at_once_do_not_see_each_other(account: Account) -> None:
    code = archive({"train.py": b"import os, socket\ns = socket.create_server(('127.0.0.1', 7777))\nimport time; time.sleep(2)\n"
                    b"open(os.environ['SM_MODEL_DIR'] + '/model.txt', 'w').write(os.environ['TRAINING_JOB_NAME'])\n"
                    b"assert len(os.listdir('/opt/ml/model')) == 1\n"})
    uri = account.put("code/port.tar.gz", code)
    for name in ("twin-1", "twin-2"):
        account.sagemaker.create_training_job(**account.training(name, hyperparameters={"sagemaker_submit_directory": uri}))
    models = [account.model_files(account.training_ended(name)) for name in ("twin-1", "twin-2")]
    assert models == [{"model.txt": "twin-1"}, {"model.txt": "twin-2"}]
