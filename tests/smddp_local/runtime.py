"""Starts scripts with the runtime's interpreter, alone or as ranks; their exit status and output come out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE_S = 120


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    returncode: int
    output: str
    """stdout and stderr, as they were interleaved."""


@dataclass(frozen=True)
class Runtime:
    """The Python environment that stands in for the training image."""

    python: Path

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """A scrubbed environment: the runtime's commands on PATH, one thread per process, nothing of the caller's."""
        return {
            "PATH": f"{self.python.parent}:/usr/bin:/bin",
            "HOME": os.environ.get("HOME", "/"),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            **(extra or {}),
        }

    def alone(self, *arguments: str | Path) -> list[str]:
        """The command of a single process."""
        return [str(self.python), *map(str, arguments)]

    def mpirun(self, ranks: int, *arguments: str | Path) -> list[str]:
        """The command that the training toolkit builds for smddp on one host, less its options for EFA and NCCL."""
        mpirun = [str(self.python.with_name("mpirun")), "--host", "localhost", "-np", str(ranks), "--allow-run-as-root", "--oversubscribe"]
        flags = ["-mca", "pml", "ob1", "-mca", "btl", "^openib", "-x", "SMDATAPARALLEL_USE_SINGLENODE=1"]
        return [*mpirun, *flags, "smddprun", str(self.python), "-m", "mpi4py", *map(str, arguments)]

    def torchrun(self, ranks: int, *arguments: str | Path) -> list[str]:
        """The command of torchrun on one host, with a free port of its own."""
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        return [str(self.python), *launcher, *map(str, arguments)]

    def launch(self, command: Sequence[str], cwd: Path, extra: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start the command in its own process group, its output in one pipe."""
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=self.environment(extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, command: Sequence[str], cwd: Path, extra: Mapping[str, str] | None = None) -> Outcome:
        """Start the command and wait for its end."""
        return finish(self.launch(command, cwd, extra))


def finish(process: subprocess.Popen[str]) -> Outcome:
    """Wait for the end, at most DEADLINE_S; a group that outlives it is killed and the test fails."""
    try:
        output, _ = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise AssertionError(f"still running after {DEADLINE_S} s: {process.args!r}\n{output}") from None
    return Outcome(process.returncode, output)


def find_runtime() -> Runtime:
    """The interpreter in SHOAL_RUNTIME_PYTHON, else the one that the emulator built."""
    named = os.environ.get("SHOAL_RUNTIME_PYTHON")
    if named:
        return Runtime(Path(named))
    asked = subprocess.run([sys.executable, "-m", "emulator", "runtime", "python", "pytorch"], cwd=ROOT, capture_output=True, text=True)
    if asked.returncode:
        raise RuntimeError(f"these tests need the PyTorch runtime: {asked.stdout}{asked.stderr}")
    return Runtime(Path(asked.stdout.strip()))
