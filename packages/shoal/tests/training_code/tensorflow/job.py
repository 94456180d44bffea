"""Runs the scripts of training_code/mnist/tensorflow as the toolkit does."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from local_kit.commands import unused_ports
from local_kit.runtime import ROOT, Outcome, finish
from tests.training_code.training import PROGRESS, DigitsJob

CODE = ROOT / "training_code" / "mnist" / "tensorflow"
OPTIONS = ("--epochs", "2", "--batch-size", "256", "--log-every", "1", "--checkpoint-every", "3")

Cluster = dict[str, list[str]]


@dataclass(frozen=True)
class Job(DigitsJob):
    """Processes of one script that share a dataset and a folder for what they write."""

    options: Sequence[str] = OPTIONS

    @property
    def weights(self) -> bytes:
        """The saved model's weights."""
        return (self.model_dir / "1" / "variables" / "variables.data-00000-of-00001").read_bytes()

    @property
    def variables(self) -> dict[str, str]:
        return super().variables | {"TF_CPP_MIN_LOG_LEVEL": "3"}

    def start(
        self, command: Sequence[str], extra: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start one command as the toolkit does."""
        return self.runtime.launch(command, self.folder, self.variables | dict(extra or {}))

    def run(self) -> Outcome:
        """Run train.py in one process."""
        return self.alone("train.py")

    def alone(self, script: str, *options: str) -> Outcome:
        """Run one process."""
        command = self.runtime.alone(CODE / script, *(options or self.options))
        return self.runtime.run(command, self.folder, self.variables)

    def task(
        self, script: Path, cluster: Cluster, role: str, index: int, *options: str
    ) -> subprocess.Popen[str]:
        """Start one task of a cluster on hosts of one core, with TF_CONFIG as the toolkit writes
        it.
        """
        task = {"index": index, "type": role}
        config = {"cluster": cluster, "environment": "cloud", "task": task}
        command = self.runtime.alone(script, *(options or self.options))
        variables = {"TF_CONFIG": json.dumps(config), "TF_NUM_INTEROP_THREADS": "1"}
        return self.start(command, variables)


SCRIPTS = {"none": "train.py", "mirrored": "train_mirrored.py"}
"""Of the strategies that are one process each."""
WORKERS, PARAMETER_SERVER = (
    CODE / f"train_{name}.py" for name in ("multi_worker_mirrored", "parameter_server")
)
TOOLKIT_SERVER = Path(__file__).with_name("scripts") / "toolkit_server.py"


def start(job: Job, strategy: str) -> list[subprocess.Popen[str]]:
    """Start the processes of a synchronous strategy on two replicas, rank 0's first.

    That of no strategy has the hyperparameter that SageMaker's SDK adds to TensorFlow jobs.
    """
    runtime = job.runtime
    if strategy == "multi_worker_mirrored":
        cluster = {"worker": free_addresses(2)}
        return [job.task(WORKERS, cluster, "worker", index) for index in range(2)]
    commands = {
        "none": runtime.alone(CODE / "train.py", *job.options, "--model_dir", "s3://of-the-sdk"),
        "smddp": runtime.mpirun(2, CODE / "train_smddp.py", *job.options),
        "horovod": runtime.mpi(2, CODE / "train_horovod.py", *job.options),
    }
    return [job.start(commands[strategy])]


def run(job: Job, strategy: str) -> Outcome:
    """Return the outcome of the chief, once all have ended; the others must have, silently."""
    if strategy in SCRIPTS:
        return job.alone(SCRIPTS[strategy])
    chief, *others = [finish(each) for each in start(job, strategy)]
    for other in others:
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
    toolkit = job.task(TOOLKIT_SERVER, cluster, "ps", 0)
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


def free_addresses(count: int) -> list[str]:
    """Return addresses on this machine with different ports that nobody listens at."""
    return [f"localhost:{port}" for port in islice(unused_ports(), count)]


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process that does not end by itself, and what it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
