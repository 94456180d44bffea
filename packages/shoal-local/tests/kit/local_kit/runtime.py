"""Starts scripts with the runtime's interpreter, alone or as ranks, and collects their output."""

import functools
import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_kit.commands import unused_ports
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes

ROOT = Path(__file__).resolve().parents[5]
# a bound for what hangs: on two cores at a load average of 20, TensorFlow alone takes 40 s to
# import
DEADLINE_S = 300


@dataclass(frozen=True)
class Outcome:
    """The end of a command: its exit status and its output."""

    returncode: int
    output: str
    """stdout and stderr, as they were interleaved."""


@dataclass(frozen=True)
class Runtime:
    """The Python environment that stands in for the training image."""

    python: Path
    framework: str = ""
    """A module that takes long to import: single scripts run in forks of a process that has it."""

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return a scrubbed environment.

        It has the runtime's commands on PATH, one thread per process, and nothing of the caller's.
        """
        return {
            "PATH": f"{self.python.parent}:/usr/bin:/bin",
            "HOME": os.environ.get("HOME", "/"),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(ROOT / "training_code"),  # what a source archive carries as `common`
            **(extra or {}),
        }

    def alone(self, *arguments: str | Path) -> list[str]:
        """Return the command of a single process."""
        return [str(self.python), *map(str, arguments)]

    def mpirun(self, ranks: int, *arguments: str | Path) -> list[str]:
        """Return the command that the training toolkit builds for smddp on one host.

        Its options for EFA and NCCL are left out.
        """
        hosts = f"--host localhost -np {ranks} --allow-run-as-root --oversubscribe".split()
        mpirun = [str(self.python.with_name("mpirun")), *hosts]
        openib = ["-mca", "pml", "ob1", "-mca", "btl", "^openib"]
        flags = [*openib, "-x", "SMDATAPARALLEL_USE_SINGLENODE=1"]
        return [*mpirun, *flags, "smddprun", str(self.python), "-m", "mpi4py", *map(str, arguments)]

    def mpi(self, ranks: int, *arguments: str | Path) -> list[str]:
        """Return the command that the training toolkit builds for Horovod: no smddprun."""
        return [part for part in self.mpirun(ranks, *arguments) if part != "smddprun"]

    def torchrun(self, ranks: int, *arguments: str | Path) -> list[str]:
        """Return the command of torchrun on one host, with a free port of its own and free ones
        above it, where the ranks' probe of the network meets.
        """
        port = ("--master-port", str(next(unused_ports())))
        launcher = ["-m", "torch.distributed.run", *port, "--nproc-per-node", str(ranks)]
        return [str(self.python), *launcher, *map(str, arguments)]

    def launch(
        self, command: Sequence[str], cwd: Path, extra: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start the command in its own process group, with its output in one pipe.

        It has a folder of its own for temporary files: mpiruns that start and end in one folder
        disturb each other ("The PMIx server's listener thread failed to start", exit code 213, in 7
        of 7200 measured, and in none of 5400 that had their own).
        """
        return subprocess.Popen(
            command,
            cwd=cwd,
            env={"TMPDIR": tempfile.mkdtemp(prefix="tmp-", dir=cwd), **self.environment(extra)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def answer(
        self, command: Sequence[str], cwd: Path, extra: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Run a command whose last argument is where it writes a JSON object.

        Return that object, with the output as `output`.
        """
        outcome = self.run(command, cwd, extra)
        assert outcome.returncode == 0, outcome.output
        answer: dict[str, Any] = json.loads(Path(command[-1]).read_text())
        return answer | {"output": outcome.output}

    def run(
        self, command: Sequence[str], cwd: Path, extra: Mapping[str, str] | None = None
    ) -> Outcome:
        """Start the command and wait for its end."""
        program, *rest = command
        if self.framework and program == str(self.python) and rest[0] not in ("-m", "-W"):
            return _preloaded(self).run(rest, cwd, extra or {})
        return finish(self.launch(command, cwd, extra))


class _Preloaded:
    """A process that has imported the framework, and runs one script at a time in a fork."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._process = subprocess.Popen(
            runtime.alone(Path(__file__).with_name("preloaded.py"), runtime.framework),
            env=runtime.environment({"TF_CPP_MIN_LOG_LEVEL": "3"}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )

    def run(self, arguments: Sequence[str], cwd: Path, extra: Mapping[str, str]) -> Outcome:
        """Run a script or `-c CODE`; as any other command, it has a folder for temporary files."""
        assert self._process.stdin
        assert self._process.stdout
        folder = tempfile.mkdtemp(prefix="tmp-", dir=cwd)
        output = Path(folder) / "output"
        script = {
            "arguments": list(arguments),
            "cwd": str(cwd),
            "environment": {"TMPDIR": folder, **self._runtime.environment(extra)},
            "output": str(output),
        }
        print(json.dumps(script), file=self._process.stdin)
        ready, _, _ = select.select([self._process.stdout], [], [], DEADLINE_S)
        if status := ready and self._process.stdout.readline():
            return Outcome(int(status), output.read_text())
        _preloaded.cache_clear()
        self._process.stdin.close()  # it ends after the script, which has a session of its own
        said = output.read_text() if output.exists() else ""
        raise AssertionError(f"still running after {DEADLINE_S} s: {script}\n{said}")


@functools.cache
def _preloaded(runtime: Runtime) -> _Preloaded:
    return _Preloaded(runtime)


def finish(process: subprocess.Popen[str]) -> Outcome:
    """Wait for the end, at most DEADLINE_S.

    A process group that outlives it is killed, and the test fails.
    """
    try:
        output, _ = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise AssertionError(
            f"still running after {DEADLINE_S} s: {process.args!r}\n{output}"
        ) from None
    return Outcome(process.returncode, output)


def finish_after(process: subprocess.Popen[str], text: str, sent: signal.Signals) -> Outcome:
    """Send the whole process group a signal when it prints a line with `text`.

    Return how it ended.
    """
    assert process.stdout
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            os.killpg(process.pid, sent)
            break
    outcome = finish(process)
    return Outcome(outcome.returncode, "".join(lines) + outcome.output)


def find_runtime(name: str = "pytorch") -> Runtime:
    """Return the interpreter in SHOAL_RUNTIME_PYTHON or SHOAL_TENSORFLOW_RUNTIME_PYTHON.

    Without the variable it is shoal-local's, which is built if need be.
    """
    named = os.environ.get(
        "SHOAL_RUNTIME_PYTHON" if name == "pytorch" else f"SHOAL_{name.upper()}_RUNTIME_PYTHON"
    )
    framework = {"pytorch": "torch", "trainers": "torch"}.get(name, name)
    if named:
        return Runtime(Path(named), framework)
    return Runtime(build(runtimes()[name], None, lambda _line: None), framework)
