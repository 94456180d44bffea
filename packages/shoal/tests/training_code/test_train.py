"""What a training job prints and writes, and that the number of ranks does not change what it
learns.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from local_kit.runtime import finish
from tests.training_code.conftest import STEPS, Trained
from tests.training_code.training import CODE, PROGRESS, Job, accuracies, losses, pack

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
    trained: Trained, tmp_path: Path, launcher: str, script: str, averaging: str, backend: str
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
    trained: Trained, dataset: Path, tmp_path: Path
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
