"""Training jobs: statuses, reasons, artifacts and logs come from what really ran. A warm pool's
instances wait for the next job that matches, and keep its cache.
"""

import json
import os
import re
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.networks import needs_networks
from local_kit.sagemaker_account import (
    BUCKET,
    SOURCES,
    Account,
    algorithm,
    archive,
    channel,
    command_lines,
    until,
)

GROUP = "/aws/sagemaker/TrainingJobs"
SDKS_DEFAULTS: dict[str, Any] = {
    "DebugHookConfig": {"S3OutputPath": f"s3://{BUCKET}/debug", "CollectionConfigurations": []},
    "ProfilerConfig": {"S3OutputPath": f"s3://{BUCKET}/debug", "DisableProfiler": False},
}
"""What SageMaker's SDK v2 sends with a job of which nobody said anything."""
TWO_CPU_HOSTS = {"InstanceType": "ml.c5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
NO_ARCHIVE = {"sagemaker_submit_directory": f"s3://{BUCKET}/data/train/one.txt"}
TORCHRUN = {"sagemaker_torch_distributed_enabled": "true"}
MPI = {"sagemaker_mpi_enabled": "true", "sagemaker_mpi_num_of_processes_per_host": "2"}
OURS = {"of-test-run": str(os.getpid())}
"""Tells our ranks from those of another run of the tests on this machine."""
TWO_P4D = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}


@pytest.fixture(scope="module")
def succeeded(account: Account) -> dict[str, Any]:
    with_metrics = account.training("x")["AlgorithmSpecification"] | {
        "MetricDefinitions": [{"Name": "loss", "Regex": r"loss=([0-9.]+)"}]
    }
    return account.train(
        "succeeds",
        InputDataConfig=[channel(f"s3://{BUCKET}/data/train/")],
        AlgorithmSpecification=with_metrics,
        **SDKS_DEFAULTS,
    )


def exit_codes(account: Account, name: str) -> set[int]:
    """Return what the pod wrote: evidence besides the status."""
    file = account.state_dir / "sagemaker-jobs" / f"training-{name}" / "exit-codes.json"
    return set(json.loads(file.read_text()).values())


def test_a_job_that_succeeds_leaves_its_model_its_statuses_its_metrics_and_its_log(
    account: Account, succeeded: dict[str, Any]
) -> None:
    assert succeeded["TrainingJobStatus"] == "Completed"
    assert exit_codes(account, "succeeds") == {0}
    assert account.model_files(succeeded) == {"model.txt": "deep one.txt two.txt"}
    assert succeeded["OutputDataConfig"]["KmsKeyId"] == ""
    statuses = [each["Status"] for each in succeeded["SecondaryStatusTransitions"]]
    assert statuses == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    (metric,) = succeeded["FinalMetricDataList"]
    assert (metric["MetricName"], metric["Value"]) == ("loss", 0.125)
    measured = partial(account.measured, GROUP, "loss", TrainingJobName="succeeds")
    assert (min(measured(statistic="Minimum")), sum(measured(statistic="SampleCount"))) == (
        0.125,
        2,
    )
    assert "epoch=2 loss=0.125" in account.log(GROUP, "succeeds/algo-1-")


def test_what_the_sdk_sends_by_default_is_described_and_the_log_says_that_it_does_nothing(
    account: Account, succeeded: dict[str, Any]
) -> None:
    assert succeeded.items() >= SDKS_DEFAULTS.items()
    assert succeeded["ProfilingStatus"] == "Disabled"
    assert account.keys("debug/") == []
    notice = account.log(GROUP, "succeeds/emulator")
    assert "DebugHookConfig and ProfilerConfig: nothing is recorded here" in notice


@pytest.mark.usefixtures("succeeded")
def test_a_name_can_be_used_once(account: Account) -> None:
    in_use = account.sagemaker.exceptions.ResourceInUse
    with pytest.raises(in_use, match="a training job with this name already exists"):
        account.sagemaker.create_training_job(**account.training("succeeds"))


@pytest.mark.parametrize(
    ("name", "hyperparameters", "reason"),
    [
        ("fails", {"do": "fail"}, r"ExecuteUserScriptError:\nExitCode 1\n.*on purpose.*"),
        ("no-archive", NO_ARCHIVE, "Framework Error:.*"),
    ],
)
def test_a_script_that_fails_fails_its_job_with_the_toolkits_reason_and_leaves_no_model(
    account: Account, name: str, hyperparameters: dict[str, str], reason: str
) -> None:
    job = account.train(name, hyperparameters=hyperparameters)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Failed", "Failed")
    whole = f"AlgorithmError: {reason}, exit code: 1"
    assert re.fullmatch(whole, job["FailureReason"], re.DOTALL)
    assert exit_codes(account, name) == {1}
    assert account.keys(f"out/{name}/") == []


def test_an_empty_model_folder_completes_without_an_archive(account: Account) -> None:
    job = account.train("empty", hyperparameters={"do": "empty"})
    assert job["TrainingJobStatus"] == "Completed"
    assert account.keys("out/empty") == []


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
    assert any("got SIGTERM" in line for line in account.log(GROUP, "stopped/emulator"))


def test_checkpoints_are_synced_and_a_second_job_resumes_from_them(account: Account) -> None:
    config = {"S3Uri": f"s3://{BUCKET}/checkpoints/resumed"}
    for name in ("first-part", "second-part"):
        account.train(name, hyperparameters={"do": "checkpoint"}, CheckpointConfig=config)
    assert account.get(f"s3://{BUCKET}/checkpoints/resumed/step.txt") == b"2"


WRITES = b"""
import os, pathlib
host = os.environ["SM_CURRENT_HOST"]
for folder in (os.environ["SM_MODEL_DIR"], os.environ["SM_OUTPUT_DATA_DIR"]):
    shared = pathlib.Path(folder, "shared", "deep")
    shared.mkdir(parents=True)
    (shared / f"{host}.txt").write_text(host)
    (shared / "same.txt").write_text("same")
    (shared / "other.txt").write_text(host)
    pathlib.Path(folder, f"{host}-link.txt").symlink_to("shared/deep/same.txt")
    (pathlib.Path(folder, host) if host == "algo-2" else pathlib.Path(folder, "file")).mkdir()
    (pathlib.Path(folder, "file") if host == "algo-2" else pathlib.Path(folder, "x")).touch()
"""


@needs_networks
def test_the_model_and_the_output_have_the_files_of_all_hosts(account: Account) -> None:
    account.put("code/writes.py.tar.gz", archive({"writes.py": WRITES}))
    job = account.train("writes", "writes.py", ResourceConfig=TWO_CPU_HOSTS)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    model = job["ModelArtifacts"]["S3ModelArtifacts"]
    output = {
        "ModelArtifacts": {"S3ModelArtifacts": model.replace("model.tar.gz", "output.tar.gz")}
    }
    for files in (account.model_files(job), account.model_files(output)):
        assert files == {
            "shared/deep/algo-1.txt": "algo-1",
            "shared/deep/algo-2.txt": "algo-2",
            "shared/deep/same.txt": "same",
            "shared/deep/other.txt": "algo-1",
            "algo-1-link.txt": "same",
            "algo-2-link.txt": "same",
            "x": "",
        }
    notices = account.log(GROUP, "writes/emulator")
    clashes = [line.split(" has ")[0] for line in notices if "algo-2: kept" in line]
    names = ("file", "shared/deep/other.txt")
    assert clashes == [f"{folder}/{name}" for folder in ("model", "data") for name in names]


@needs_networks
@pytest.mark.parametrize(
    ("program", "switches", "cluster", "ranks"),
    [
        ("ranks.py", TORCHRUN, TWO_P4D, "4 ranks, sum 6"),
        ("mpi_ranks.py", MPI, TWO_CPU_HOSTS, "4 ranks on algo-1 algo-2, sum 6"),
    ],
)
def test_ranks_of_two_hosts_meet(
    account: Account, program: str, switches: dict[str, str], cluster: Any, ranks: str
) -> None:
    account.put_programs(program, folder=SOURCES)
    name = program.removesuffix(".py").replace("_", "-")
    job = account.train(name, program, hyperparameters=switches, ResourceConfig=cluster)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert account.model_files(job) == {"ranks.txt": ranks}


VALUES = ["full_shard auto_wrap", " a  b ", ";touch x;$(touch x)", "`touch x`", "\"'*", "a\nb"]


@pytest.mark.parametrize("launcher", ["sagemaker_torch_distributed_enabled", "of_none"])
def test_a_script_gets_its_arguments_as_they_were_written_and_nothing_else_runs(
    account: Account, launcher: str
) -> None:
    # one write, with a line of its own: the ranks share the log with torchrun
    script = (
        "import json, os, sys\n"
        "line = 'ARGV ' + json.dumps([sys.argv[1:], os.listdir()])\n"
        "os.write(1, f'\\n{line}\\n'.encode())\n"
    )
    account.put("code/argv.py.tar.gz", archive({"argv.py": script.encode()}))
    values = {f"hp{number}": json.dumps(value) for number, value in enumerate(VALUES)}
    switches = {"sagemaker_toolkit_native_launcher_enabled": "true", launcher: "true"}
    name = launcher.replace("_", "-")
    account.train(name, "argv.py", hyperparameters=values | switches)
    log = account.log(GROUP, f"{name}/algo-1-")
    assert any("capture_error is False" in line for line in log)
    printed = [json.loads(line[5:]) for line in log if line.startswith("ARGV ")]
    assert printed, "\n".join(log[-25:])
    for arguments, files in printed:
        given = dict(zip(arguments[::2], arguments[1::2], strict=True))
        assert [given[f"--hp{number}"] for number in range(len(VALUES))] == VALUES
        assert files == ["argv.py"]


def test_a_script_imports_what_awss_image_brings_and_its_requirements_are_met(
    account: Account,
) -> None:
    script = (
        "import os, packaging, pandas, PIL, requests, sklearn, torch, tqdm, yaml\n"
        "assert os.environ['SM_DLC_TORCH_VERSION'] == torch.__version__\n"
        "open(os.environ['SM_MODEL_DIR'] + '/model.txt', 'w').write(pandas.__name__)\n"
    )
    files = {"imports.py": script.encode(), "requirements.txt": b"pandas\nrequests>=2\n"}
    account.put("code/imports.py.tar.gz", archive(files))
    assert account.model_files(account.train("imports", "imports.py")) == {"model.txt": "pandas"}


@needs_networks
def test_a_host_that_dies_fails_the_job_under_its_name_and_ends_the_others(
    account: Account,
) -> None:
    """Each host has its share of a channel of three objects that is sharded by key."""
    account.put_programs("hosts.py")
    for name in ("a", "b", "c"):
        account.put(f"data/sharded/{name}.txt", name.encode())
    train = channel(f"s3://{BUCKET}/data/sharded/")
    train["DataSource"]["S3DataSource"]["S3DataDistributionType"] = "ShardedByS3Key"
    job = account.train(
        "half-dead",
        "hosts.py",
        hyperparameters={"kill": "algo-2"} | OURS,
        ResourceConfig=TWO_CPU_HOSTS,
        InputDataConfig=[train],
    )
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("AlgorithmError: algo-2: ")
    assert job["FailureReason"].endswith("exit code: 137")
    assert not [line for line in command_lines() if f"--of-test-run {os.getpid()}" in line]
    assert account.keys("out/half-dead") == []
    folder = account.state_dir / "sagemaker-jobs" / "training-half-dead"
    for host, shard in (("algo-1", "a.txt c.txt"), ("algo-2", "b.txt")):
        assert (folder / host / "ml" / "output" / "data" / "shard.txt").read_text() == shard


PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/reserved"
COUNT = (
    'echo "$TRAINING_JOB_NAME" >> "$SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY/jobs";'
    " cat /opt/ml/sagemaker/warmpoolcache/jobs > /opt/ml/model/jobs"
)


def pooled(account: Account, name: str, script: str = COUNT, **resources: Any) -> dict[str, Any]:
    """Run a script as a training job whose volume size is that of this test's pools."""
    request = account.training(name, AlgorithmSpecification=algorithm(script))
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


def test_a_training_plan_is_described(account: Account) -> None:
    job = pooled(account, "planned", "true", TrainingPlanArn=PLAN, KeepAlivePeriodInSeconds=0)
    assert job["ResourceConfig"]["TrainingPlanArn"] == PLAN
    assert "WarmPoolStatus" not in job
