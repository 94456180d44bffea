"""Jobs of several hosts: each has its own address, files and ranks, and the death of one is the end
of all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.networks import needs_networks
from local_kit.sagemaker_account import (
    BUCKET,
    PROGRAMS,
    Account,
    archive,
    channel,
    command_lines,
    until,
)
from shoal_local.sagemaker.container import launch

GROUP = "/aws/sagemaker/TrainingJobs"
TWO_CPU_HOSTS = {"InstanceType": "ml.c5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
TWO_P4D = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
TENSORFLOW_IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training:2.19.0-cpu-py312-ubuntu22.04-sagemaker"  # noqa: E501
TENSORFLOW = {"TrainingImage": TENSORFLOW_IMAGE, "TrainingInputMode": "File"}
MPI = {"sagemaker_mpi_enabled": "true"}
RUN = {"of-test-run": str(os.getpid())}
"""Tells our ranks from those of another run of the tests on this machine."""


@pytest.fixture(scope="module")
def two(account: Account) -> Account:
    """The account, with this module's programs."""
    for program in ("hosts.py", "mpi_ranks.py"):
        account.put(f"code/{program}.tar.gz", archive({program: (PROGRAMS / program).read_bytes()}))
    return account


def ours(lines: Iterable[str]) -> list[str]:
    """Return the command lines of a job of ours that was to kill a host."""
    return [line for line in lines if f"--of-test-run {os.getpid()}" in line]


def test_a_host_that_dies_fails_the_job_under_its_name_and_ends_the_others(two: Account) -> None:
    """Each host has its share of a channel of three objects that is sharded by key."""
    for name in ("a", "b", "c"):
        two.put(f"data/sharded/{name}.txt", name.encode())
    train = channel(f"s3://{BUCKET}/data/sharded/")
    train["DataSource"]["S3DataSource"]["S3DataDistributionType"] = "ShardedByS3Key"
    job = two.train(
        "half-dead",
        "hosts.py",
        hyperparameters={"kill": "algo-2"} | RUN,
        ResourceConfig=TWO_CPU_HOSTS,
        InputDataConfig=[train],
    )
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("AlgorithmError: algo-2: ")
    assert job["FailureReason"].endswith("exit code: 137")
    assert not ours(command_lines())
    assert two.keys("out/half-dead") == []
    folder = two.state_dir / "sagemaker-jobs" / "training-half-dead"
    for host, shard in (("algo-1", "a.txt c.txt"), ("algo-2", "b.txt")):
        assert (folder / host / "ml" / "output" / "data" / "shard.txt").read_text() == shard


SMDDP = {"sagemaker_distributed_dataparallel_enabled": "true", "backend": "smddp"}
TORCHRUN = {"sagemaker_torch_distributed_enabled": "true"}
SERVERS = {"sagemaker_parameter_server_enabled": "true"}


@needs_networks
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "program", "hyperparameters", "changes"),
    [
        ("smddp", "ranks.py", SMDDP | {"kill-host": "algo-2"}, {"ResourceConfig": TWO_P4D}),
        ("torchrun", "ranks.py", TORCHRUN | {"kill-host": "algo-2"}, {}),
        (
            "servers",
            "hosts.py",
            SERVERS | {"kill": "algo-2"},
            {"AlgorithmSpecification": TENSORFLOW},
        ),
    ],
)
def test_a_host_that_dies_fails_the_job_under_every_launcher_and_leaves_no_process(
    two: Account,
    name: str,
    program: str,
    hyperparameters: dict[str, str],
    changes: dict[str, Any],
) -> None:
    data = [channel(f"s3://{BUCKET}/data/train/")]
    rest: dict[str, Any] = {"ResourceConfig": TWO_CPU_HOSTS, "InputDataConfig": data} | changes
    job = two.train(f"dying-{name}", program, hyperparameters=hyperparameters | RUN, **rest)
    reason = job.get("FailureReason", "")
    assert job["TrainingJobStatus"] == "Failed"
    assert reason.startswith("AlgorithmError: algo-2: "), reason
    assert reason.endswith("exit code: 137"), reason
    until(command_lines, lambda lines: not ours(lines))


@needs_networks
def test_mpirun_starts_ranks_on_the_other_host_at_its_own_address(two: Account) -> None:
    processes = {"sagemaker_mpi_num_of_processes_per_host": "2"}
    job = two.train(
        "mpi", "mpi_ranks.py", hyperparameters=MPI | processes, ResourceConfig=TWO_CPU_HOSTS
    )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    first, second = "algo-1=10.0.0.11", "algo-2=10.0.0.12"
    assert two.model_files(job) == {"model.txt": f"{first} {first} {second} {second}"}


@pytest.mark.nightly
@needs_networks
def test_smddp_runs_under_mpirun_with_half_of_its_ranks_on_each_host(two: Account) -> None:
    job = two.train("smddp-two", "ranks.py", hyperparameters=SMDDP, ResourceConfig=TWO_P4D)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert two.model_files(job) == {"model.txt": "4 10"}
    assert any("world_size=4 on_this_host=2" in line for line in two.log(GROUP, "smddp-two/"))


@pytest.fixture
def shared_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine that lets no host have a network of its own."""
    launch.networks_refused.cache_clear()
    monkeypatch.setenv(launch.SHARED_NETWORK_VARIABLE, "1")
    yield
    launch.networks_refused.cache_clear()


@pytest.mark.usefixtures("shared_network")
@pytest.mark.parametrize("enabled", ["true", "[" * 2000], ids=["true", "nested without end"])
def test_where_networks_are_refused_launchers_that_need_them_are_refused_by_name(
    two: Account, enabled: str
) -> None:
    hyperparameters = {"sagemaker_mpi_enabled": enabled}
    request = two.training(
        "mpi-shared", "mpi_ranks.py", hyperparameters=hyperparameters, ResourceConfig=TWO_CPU_HOSTS
    )
    refusal = (
        "MPI on several hosts of this machine: each needs its own network.*SHOAL_SHARED_NETWORK is"
    )
    with pytest.raises(ClientError, match=refusal):
        two.sagemaker.create_training_job(**request)


@pytest.mark.nightly
@pytest.mark.usefixtures("shared_network")
def test_where_networks_are_refused_torchrun_still_runs_on_two_hosts_and_the_log_says_how(
    two: Account,
) -> None:
    job = two.train(
        "shared",
        "ranks.py",
        hyperparameters=TORCHRUN,
        ResourceConfig=TWO_CPU_HOSTS,
    )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert any(
        "they share one loopback interface" in line for line in two.log(GROUP, "shared/emulator-")
    )
