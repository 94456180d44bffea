"""Starts a job of each TensorFlow strategy as the toolkit does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_kit.runtime import Outcome, finish
from tests.training_code.tensorflow.job import CODE, OPTIONS, Job, end, free_addresses
from tests.training_code.training import PROGRESS

SERVER = Path(__file__).with_name("scripts") / "toolkit_server.py"
PARAMETER_SERVER = CODE / "train_parameter_server.py"


def none(job: Job) -> subprocess.Popen[str]:
    """Start one process, with the hyperparameter that SageMaker's SDK adds to TensorFlow jobs."""
    return job.start(
        job.runtime.alone(CODE / "train.py", *OPTIONS, "--model_dir", "s3://what-the-sdk-adds")
    )


def smddp(job: Job) -> subprocess.Popen[str]:
    """Start two ranks."""
    return job.start(job.runtime.mpirun(2, CODE / "train_smddp.py", *OPTIONS))


def horovod(job: Job) -> subprocess.Popen[str]:
    """Start two ranks."""
    return job.start(job.runtime.mpi(2, CODE / "train_horovod.py", *OPTIONS))


def mirrored(job: Job) -> Outcome:
    """Run two replicas in one process."""
    return job.alone("train_mirrored.py")


def two_workers(job: Job) -> list[subprocess.Popen[str]]:
    """Start the chief and another worker of MultiWorkerMirroredStrategy."""
    cluster = {"worker": free_addresses(2)}
    return [
        job.task(CODE / "train_multi_worker_mirrored.py", cluster, "worker", index)
        for index in range(2)
    ]


def multi_worker_mirrored(job: Job) -> Outcome:
    """Run two workers and return the chief's outcome, once both have ended well."""
    chief, other = [finish(task) for task in two_workers(job)]
    assert (other.returncode, PROGRESS.findall(other.output)) == (0, []), other.output
    return chief


@contextmanager
def parameter_server(
    job: Job, *options: str
) -> Iterator[tuple[subprocess.Popen[str], list[subprocess.Popen[str]]]]:
    """Start the chief, two workers and a parameter server that run the script.

    A second parameter server is the toolkit's own.
    """
    addresses = free_addresses(5)
    cluster = {"master": addresses[:1], "ps": addresses[1:3], "worker": addresses[3:]}
    toolkit = job.task(SERVER, cluster, "ps", 0)
    others = [
        job.task(PARAMETER_SERVER, cluster, role, index)
        for role, index in (("ps", 1), ("worker", 0), ("worker", 1))
    ]
    chief = job.task(PARAMETER_SERVER, cluster, "master", 0, *OPTIONS, *options)
    try:
        yield chief, others
    finally:
        end(toolkit)  # it never ends by itself: in a container it ends with the toolkit's process
        for process in (chief, *others):
            if process.poll() is None:
                end(process)
