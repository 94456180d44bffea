"""Runs a script of training_code/mnist/tensorflow as a training job would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from local_kit.ports import unused_ports
from local_kit.runtime import ROOT, Outcome, Runtime

CODE = ROOT / "training_code" / "mnist" / "tensorflow"
OPTIONS = ("--epochs", "2", "--batch-size", "256", "--log-every", "1", "--checkpoint-every", "3")
JOB_NAME = "job-of-the-test"

Cluster = dict[str, list[str]]


@dataclass(frozen=True)
class Job:
    """Processes of one script that share a dataset and a folder for what they write."""

    runtime: Runtime
    dataset: Path
    folder: Path

    @property
    def model_dir(self) -> Path:
        """Where the job writes its model."""
        return self.folder / "model"

    @property
    def checkpoint_dir(self) -> Path:
        """Where the job writes its checkpoint."""
        return self.folder / "checkpoints"

    @property
    def weights(self) -> bytes:
        """The saved model's weights."""
        return (self.model_dir / "1" / "variables" / "variables.data-00000-of-00001").read_bytes()

    def start(
        self, command: Sequence[str], extra: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start one command as the toolkit does.

        Folders are SM_* variables, hyperparameters are on the command line.
        """
        return self.runtime.launch(command, self.folder, self._variables() | dict(extra or {}))

    def _variables(self) -> dict[str, str]:
        self.folder.mkdir(exist_ok=True)
        return {
            "SM_CHANNEL_TRAIN": str(self.dataset / "train"),
            "SM_CHANNEL_TEST": str(self.dataset / "test"),
            "SM_MODEL_DIR": str(self.model_dir),
            "TRAINING_JOB_NAME": JOB_NAME,
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }

    def alone(self, script: str, *options: str) -> Outcome:
        """Run one process."""
        command = self.runtime.alone(CODE / script, *(options or OPTIONS))
        return self.runtime.run(command, self.folder, self._variables())

    def task(
        self, script: Path, cluster: Cluster, role: str, index: int, *options: str
    ) -> subprocess.Popen[str]:
        """Start one task of a cluster on hosts of one core, with TF_CONFIG as the toolkit writes
        it.
        """
        config = {
            "cluster": cluster,
            "environment": "cloud",
            "task": {"index": index, "type": role},
        }
        command = self.runtime.alone(script, *(options or OPTIONS))
        variables = {"TF_CONFIG": json.dumps(config), "TF_NUM_INTEROP_THREADS": "1"}
        return self.start(command, variables)


def free_addresses(count: int) -> list[str]:
    """Return addresses on this machine with different ports that nobody listens at."""
    return [f"localhost:{port}" for port in islice(unused_ports(), count)]


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process that does not end by itself, and what it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
