"""Runs training_code/language/pytorch/train.py, and reads what a job says and leaves."""

import json
import re
import struct
from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from local_kit.tables import table
from tests.repository import CHECKOUT

CODE = CHECKOUT / "training_code" / "language" / "pytorch"
_SCRIPTS = Path(__file__).with_name("scripts")
_LOSS = re.compile(r"^step=(\d+)/\d+ train_loss=(\S+) ", re.MULTILINE)
_BYTES = re.compile(r"(\w+)_bytes=(\d+)")
_GOODPUT = re.compile(r" goodput=(\S+) ")
_PART = re.compile(r"(\w+)=([0-9.]+)")
TOLERANCE = 1e-12
Options = dict[str, str | int]
SMALL: Options = table(__file__, "cases.yaml")["ways"]["small"]


@dataclass(frozen=True)
class Signal:
    """What the ranks of a job get, so long after its first lines with a loss."""

    number: int
    line: int
    after_s: float = 0.0
    rank: int | None = None
    """The only one that gets it; None: all."""


@dataclass(frozen=True)
class Job:
    """A run of train.py in a folder of its own: options without their dashes."""

    folder: Path
    options: Options = field(default_factory=dict)
    ranks: int = 1
    signal: Signal | None = None
    hosts: tuple[str, ...] = ("checkpoints",)
    """The folders in which the hosts, which have equally many ranks, keep their checkpoints."""
    max_file_bytes: int = -1
    """What the last rank can write into a file."""

    @property
    def checkpoints(self) -> list[Path]:
        """Return the folders of its first host's checkpoints, the oldest first."""
        return sorted((self.folder / self.hosts[0]).iterdir())

    def to_json(self, text: Path) -> str:
        """Return the job for scripts/run_ranks.py."""
        folders = {"train-dir": text, "model-dir": self.folder / "model"}
        options = {**folders, **self.options}.items()
        arguments = [word for name, value in options for word in (f"--{name}", str(value))]
        signal = asdict(self.signal) if self.signal else None
        hosts = [str(self.folder / name) for name in self.hosts]
        return json.dumps(
            {
                "ranks": self.ranks,
                "hosts": hosts,
                "arguments": arguments,
                "signal": signal,
                "max_file_bytes": self.max_file_bytes,
            }
        )

    def weights(self, typecode: str = "d") -> "array[float]":
        """Return all numbers of its model, which is one of float64, or of float32 with "f"."""
        content = (self.folder / "model" / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        return array(typecode, content[8 + length :])


def ways(name: str) -> dict[str, tuple[int, Options]]:
    """Return ranks and options of each way of `ways` in cases.yaml."""
    rows: dict[str, Options] = table(__file__, "cases.yaml")["ways"][name]
    return {way: (int(row.pop("ranks")), row) for way, row in rows.items()}


@dataclass(frozen=True)
class Result:
    """How a job ended."""

    job: Job
    statuses: list[int]
    output: str

    @property
    def status(self) -> int:
        """Return the highest exit status of its ranks."""
        return max(self.statuses)

    @property
    def curve(self) -> dict[int, float]:
        """Return the loss at each step."""
        return {int(step): float(loss) for step, loss in _LOSS.findall(self.output)}

    @property
    def kept(self) -> dict[str, int]:
        """Return the bytes that a rank kept of weights, gradients and optimizer."""
        return self.bytes_of("kept by a rank: ")

    def bytes_of(self, beginning: str) -> dict[str, int]:
        """Return the bytes that a line names."""
        return {name: int(size) for name, size in _BYTES.findall(self._line(beginning))}

    @property
    def goodput(self) -> list[float]:
        """Return the goodput in each line of metrics."""
        return [float(share) for share in _GOODPUT.findall(self.output)]

    @property
    def parts_ms(self) -> dict[str, float]:
        """Return the milliseconds of a step, by part."""
        return {part: float(ms) for part, ms in _PART.findall(self._line("milliseconds of"))}

    def _line(self, beginning: str) -> str:
        (line,) = (each for each in self.output.splitlines() if each.startswith(beginning))
        return line


Compute = Callable[..., list[Result]]
"""`run` for one Python and one text."""


def run(runtime: Runtime, text: Path, *jobs: Job, probe: str = "") -> list[Result]:
    """Run jobs one after the other, with a probe of scripts/probes.py in their steps."""
    folder = jobs[0].folder
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.json"
    program = (_SCRIPTS / "probes.py", probe) if probe else (_SCRIPTS / "run_ranks.py",)
    command = runtime.alone(*program, file, *(job.to_json(text) for job in jobs))
    outcome = runtime.run(command, folder)
    assert outcome.returncode == 0, outcome.output
    pairs = json.loads(file.read_text())
    return [Result(job, *pair) for job, pair in zip(jobs, pairs, strict=True)]


def assert_same_curve(result: Result, expected: Result) -> None:
    """Check that a job, from the step it began with, has the losses of another.

    Ranks over smddp add the losses that they print in float32.
    """
    over_smddp = result.job.options.get("backend") == "smddp"
    assert result.status == 0, result.output
    assert result.curve == {
        step: pytest.approx(loss, abs=1e-5 if over_smddp else TOLERANCE, rel=0)
        for step, loss in expected.curve.items()
        if step >= min(result.curve)
    }


def assert_same(result: Result, expected: Result) -> None:
    """Check that a job has the losses of another, and its weights."""
    assert_same_curve(result, expected)
    assert difference(result.job.weights(), expected.job.weights()) < TOLERANCE


def difference(one: "array[float]", other: "array[float]") -> float:
    """Return the largest difference of two models' weights."""
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def write_text(folder: Path) -> Path:
    """Write a small text to learn from, and return its channel."""
    channel = folder / "train"
    channel.mkdir(parents=True)
    words = ("shoal", "of", "fish", "turns", "as", "one", "when", "light", "falls", "on", "it")
    sentences = (" ".join(words[at * step % 11] for at in range(9)) for step in range(1, 60))
    (channel / "fish.txt").write_text(".\n".join(sentences))
    return channel
