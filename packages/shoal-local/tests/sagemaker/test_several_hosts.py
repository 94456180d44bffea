"""Jobs of several hosts: each has its own address, files and ranks, and the death of one is the end
of all.
"""

from __future__ import annotations

import os

import pytest

from local_kit.networks import needs_networks
from local_kit.sagemaker_account import BUCKET, PROGRAMS, Account, archive, channel, command_lines

GROUP = "/aws/sagemaker/TrainingJobs"
TWO_CPU_HOSTS = {"InstanceType": "ml.c5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
MPI = {"sagemaker_mpi_enabled": "true"}
OURS = {"of-test-run": str(os.getpid())}
"""Tells our ranks from those of another run of the tests on this machine."""


@pytest.fixture(scope="module")
def two(account: Account) -> Account:
    """The account, with this module's programs."""
    for program in ("hosts.py", "mpi_ranks.py"):
        account.put(f"code/{program}.tar.gz", archive({program: (PROGRAMS / program).read_bytes()}))
    return account


def test_a_host_that_dies_fails_the_job_under_its_name_and_ends_the_others(two: Account) -> None:
    """Each host has its share of a channel of three objects that is sharded by key."""
    for name in ("a", "b", "c"):
        two.put(f"data/sharded/{name}.txt", name.encode())
    train = channel(f"s3://{BUCKET}/data/sharded/")
    train["DataSource"]["S3DataSource"]["S3DataDistributionType"] = "ShardedByS3Key"
    job = two.train(
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
    assert two.keys("out/half-dead") == []
    folder = two.state_dir / "sagemaker-jobs" / "training-half-dead"
    for host, shard in (("algo-1", "a.txt c.txt"), ("algo-2", "b.txt")):
        assert (folder / host / "ml" / "output" / "data" / "shard.txt").read_text() == shard


@needs_networks
def test_mpirun_starts_ranks_on_the_other_host_at_its_own_address(two: Account) -> None:
    processes = {"sagemaker_mpi_num_of_processes_per_host": "2"}
    job = two.train(
        "mpi", "mpi_ranks.py", hyperparameters=MPI | processes, ResourceConfig=TWO_CPU_HOSTS
    )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    first, second = "algo-1=10.0.0.11", "algo-2=10.0.0.12"
    assert two.model_files(job) == {"model.txt": f"{first} {first} {second} {second}"}
