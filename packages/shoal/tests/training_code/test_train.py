"""What a training job prints and writes, and that the number of ranks does not change what it
learns.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime, finish
from tests.training_code.conftest import GLOBAL_BATCH, STEPS, Trained
from tests.training_code.training import CODE, EPOCH, PROGRESS, Job, accuracies, losses


@pytest.fixture(
    scope="module",
    params=[
        "mpirun",
        *(pytest.param(each, marks=pytest.mark.nightly) for each in ("torchrun", "mpirun ddp")),
    ],
)
def two_ranks(
    request: pytest.FixtureRequest,
    runtime: Runtime,
    dataset: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Trained:
    """Run the same on two ranks.

    On CPUs they average gradients after backward() unless `--averaging ddp` asks for GPUs' way.
    """
    launcher, _, averaging = request.param.partition(" ")
    options = (*Job.options, "--averaging", averaging or "auto")
    strict = {"SMDDP_LOCAL_STRICT": "1", "SM_CURRENT_INSTANCE_TYPE": "ml.p4d.24xlarge"}
    job = Job(
        runtime,
        dataset,
        tmp_path_factory.mktemp(launcher),
        launcher=launcher,
        ranks=2,
        environment=strict,
        options=options,
    )
    return Trained(job, job.run())


def test_one_rank_and_two_ranks_give_the_same_loss_curve(
    trained: Trained, two_ranks: Trained
) -> None:
    alone = losses(trained.outcome.output)
    assert len(alone) == 2 * STEPS
    assert losses(two_ranks.outcome.output) == pytest.approx(alone, rel=2e-3, abs=2e-4)


def test_one_rank_and_two_ranks_reach_the_same_accuracy(
    trained: Trained, two_ranks: Trained
) -> None:
    assert accuracies(two_ranks.outcome.output) == pytest.approx(
        accuracies(trained.outcome.output), abs=0.003
    )


# Twenty steps are far from enough for 99 %; guessing gives 0.1.
def test_the_model_learns(trained: Trained) -> None:
    assert accuracies(trained.outcome.output)[-1] > 0.7


def test_the_backend_follows_from_the_launcher(trained: Trained, two_ranks: Trained) -> None:
    assert "backend=gloo device=cpu world_size=1" in trained.outcome.output
    expected = "smddp" if two_ranks.job.launcher == "mpirun" else "gloo"
    assert f"backend={expected} device=cpu world_size=2" in two_ranks.outcome.output


def test_metrics_have_the_form_that_the_metric_definitions_look_for(trained: Trained) -> None:
    lines = [line for line in trained.outcome.output.splitlines() if line.startswith("epoch=")]
    assert len(lines) == 2 * STEPS + 2
    assert all(PROGRESS.fullmatch(line) or EPOCH.fullmatch(line) for line in lines)


def test_only_rank_0_prints_metrics(two_ranks: Trained) -> None:
    assert len(PROGRESS.findall(two_ranks.outcome.output)) == 2 * STEPS


def test_the_learning_rate_peaks_at_the_end_of_the_warm_up_and_falls_on_a_line_to_zero_after_the_last_step(  # noqa: E501
    trained: Trained,
) -> None:
    rates = [float(match[5]) for match in PROGRESS.finditer(trained.outcome.output)]
    assert rates[int(0.3 * len(rates))] == max(rates) == 0.01
    assert rates[-1] == pytest.approx(0.01 / (0.7 * len(rates)), abs=1e-6)


def test_the_model_folder_holds_weights_metadata_and_the_code_that_serves_them(
    trained: Trained,
) -> None:
    files = {
        str(path.relative_to(trained.job.model_dir))
        for path in trained.job.model_dir.rglob("*")
        if path.is_file()
    }
    assert files == {"model.pt", "model.json", "code/inference.py", "code/model.py"}
    assert (trained.job.model_dir / "code" / "model.py").read_bytes() == (
        CODE / "model.py"
    ).read_bytes()


def test_the_metadata_names_the_job_and_its_settings(trained: Trained) -> None:
    metadata: dict[str, Any] = json.loads((trained.job.model_dir / "model.json").read_text())
    assert (metadata["training_job_name"], metadata["batch_size"], metadata["world_size"]) == (
        "job-of-the-test",
        GLOBAL_BATCH,
        1,
    )


def test_weights_of_two_ranks_load_without_the_names_of_data_parallelism(
    runtime: Runtime, two_ranks: Trained, tmp_path: Path
) -> None:
    code = (
        "import sys, torch; w = torch.load(sys.argv[1], weights_only=True); print(sorted(w)[0],"
        " {str(t.device) for t in w.values()})"
    )
    outcome = runtime.run(runtime.alone("-c", code, two_ranks.job.model_dir / "model.pt"), tmp_path)
    assert outcome.output == "conv1.bias {'cpu'}\n"


@pytest.mark.nightly
def test_more_ranks_at_the_same_batch_per_rank_raise_the_learning_rate_linearly(
    runtime: Runtime, dataset: Path, tmp_path: Path
) -> None:
    options = ("--epochs", "1", "--batch-size-per-rank", "256", "--log-every", "1")
    job = Job(runtime, dataset, tmp_path, launcher="torchrun", ranks=2, options=options)
    rates = [float(match[5]) for match in PROGRESS.finditer(job.run().output)]
    assert max(rates) > 0.015


def test_a_run_may_end_inside_of_an_epoch(runtime: Runtime, dataset: Path, tmp_path: Path) -> None:
    output = (
        Job(runtime, dataset, tmp_path, options=("--epochs", "1.5", "--log-every", "1"))
        .run()
        .output
    )
    assert max(losses(output)) == (2, STEPS // 2)
    assert len(accuracies(output)) == 2


def test_gradients_are_the_mean_of_any_number_of_ranks_also_when_they_are_accumulated(
    runtime: Runtime, tmp_path: Path
) -> None:
    script = Path(__file__).with_name("scripts") / "average_gradients.py"
    outcome = runtime.run(runtime.alone(script, CODE), tmp_path)
    assert outcome.returncode == 0, outcome.output
    differences = json.loads(outcome.output.splitlines()[-1])
    assert list(differences) == ["2", "3", "7"]
    assert max(max(each) for each in differences.values()) < 1e-6


def test_ranks_look_until_the_first_one_listens(runtime: Runtime, tmp_path: Path) -> None:
    script = Path(__file__).with_name("scripts") / "wait_for_first_rank.py"
    outcome = runtime.run(runtime.alone(script, CODE), tmp_path)
    assert outcome.returncode == 0, outcome.output
    assert json.loads(outcome.output.splitlines()[-1]) == {
        "never": False,
        "elsewhere": True,
        "later": True,
        "looks": [1, 2, 3],
    }


def test_training_on_a_cpu_does_not_import_the_compiler(
    runtime: Runtime, dataset: Path, tmp_path: Path
) -> None:
    job = Job(
        runtime,
        dataset,
        tmp_path,
        options=("--epochs", "1"),
        environment={"PYTHONPROFILEIMPORTTIME": "1"},
    )
    imported = finish(job.start()).output  # from its beginning: no fork
    assert re.search(r"\| +torch$", imported, re.MULTILINE)
    assert "torch._dynamo" not in imported


def test_bf16_learns_too(runtime: Runtime, dataset: Path, tmp_path: Path) -> None:
    job = Job(runtime, dataset, tmp_path, options=("--precision", "bf16"))
    assert accuracies(job.run().output)[-1] > 0.7
