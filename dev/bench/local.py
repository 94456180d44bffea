"""What shoal-local costs: its start, and the way to a script's first line."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from dev.bench.processes import RunFailedError, plain_environment, tree_cpu_s
from dev.bench.rounds import Column, Comparison, Contender, Metrics, compare
from local_kit.runtime import find_runtime
from local_kit.sagemaker_account import Account, archive
from shoal_local.testing import LocalEmulator

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
