"""The templates of trainers: two ranks, every family, a base, adapters, and a run that goes on."""

import json
import re
import signal
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dev.bench import environments
from local_kit.commands import unused_ports
from local_kit.runtime import Runtime, find_runtime, finish, finish_after
from shoal.settings.loading.workload import load_workload
from shoal.verbs.new_workload import write_workload
from tests.training_code import test_new_workload

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]
SCRIPT = Path(__file__).with_name("scripts") / "trainers.py"
SHORT = ("--steps", "12", "--checkpoint-every", "6", "--context", "64", "--learning-rate", "0.002")


CASES: dict[str, tuple[str, ...]] = {
    "hf-trainer": ("hf-trainer",),
    "trl-sft": ("trl-sft",),
    "ddp": ("accelerate", "--sharding", "ddp"),
    "fsdp": ("accelerate", "--sharding", "fsdp"),
    "zero3": ("accelerate", "--sharding", "zero3"),
    "lightning": ("lightning",),
    "torchtitan": ("torchtitan",),
}
"""Case -> the trainer, and options."""


@dataclass(frozen=True)
class Job:
    runtime: Runtime
    folder: Path
    code: Path
    options: tuple[str, ...]
    family: str
    """Of a base to start from."""
    loss: str
    """What stands before a loss in the log."""

    def train(
        self, name: str, *options: str, ranks: int = 2, stopped_at: str = "", **other: str
    ) -> str:
        """Return what a run prints, whose variables are SageMaker's and these."""
        own = ("--checkpoint-dir", str(self.folder / name / "checkpoints"))
        script = self.code / "train.py"
        command = self.runtime.torchrun(ranks, script, *SHORT, *self.options, *own, *options)
        data, model = str(self.folder / "data" / "train"), str(self.folder / name / "model")
        at_exit = str(SCRIPT.with_name("left_group"))
        folders = {"SM_CHANNEL_TRAIN": data, "SM_MODEL_DIR": model, "PYTHONPATH": at_exit}
        process = self.runtime.launch(command, self.folder, folders | other)
        end = finish_after(process, stopped_at, signal.SIGTERM) if stopped_at else finish(process)
        assert (end.returncode != 0) is bool(stopped_at), end.output
        return end.output

    def ask(self, question: str, *arguments: str) -> dict[str, Any]:
        """Return what the script answers, which has the workload's modules."""
        command = self.runtime.alone(SCRIPT, question, *arguments, self.folder / "answer.json")
        return self.runtime.answer(command, self.folder, {"PYTHONPATH": str(self.code)})

    def difference(self, *models: str) -> float:
        return float(self.ask("difference", *models)["largest"])


@pytest.fixture
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Job:
    return job_of(request.param, tmp_path)


def job_of(case: str, tmp_path: Path) -> Job:
    """Write the workload of a case, with its data, into a folder."""
    trainer, *options = CASES[case]
    write_workload(tmp_path, "fresh", trainer)
    test_new_workload.prepare(tmp_path, "fresh", tmp_path / "data")
    # DeepSpeed is in AWS's image and the peers' environment, not in the runtime
    runtime = Runtime(environments.peers()) if case == "zero3" else find_runtime("trainers")
    code = tmp_path / "training_code" / "fresh" / "pytorch"
    family, loss = ("qwen3", " loss: ") if trainer == "torchtitan" else ("llama", "'loss': ")
    return Job(runtime, tmp_path, code, tuple(options), family, loss)


of_all = pytest.mark.parametrize("job", CASES, indirect=True)
of_sft = pytest.mark.parametrize("job", ["trl-sft"], indirect=True)


@pytest.mark.parametrize(
    ("job", "family"),
    [
        *product(["hf-trainer", "trl-sft", "fsdp"], ["qwen3", "llama", "gemma3_text"]),
        ("torchtitan", "qwen3"),
    ],
    indirect=["job"],
)
def test_a_family_is_one_option_and_ranks_change_nothing(job: Job, family: str) -> None:
    for ranks in (1, 2):
        job.train(f"on-{ranks}", "--family", family, ranks=ranks)
    config = json.loads((job.folder / "on-2" / "model" / "config.json").read_text())
    assert config["model_type"] == family
    assert job.difference("on-1/model", "on-2/model") < 1e-4


@of_all
def test_a_stopped_run_goes_on_with_another_number_of_ranks(job: Job) -> None:
    steps = ("--steps", "40")
    assert len(losses_in(job, job.train("whole", *steps))) >= 4
    assert "stopped on SIGTERM" in job.train("stopped", *steps, stopped_at=job.loss)
    assert not (job.folder / "stopped" / "model" / "model.json").exists()
    job.train("stopped", *steps, ranks=1)
    assert job.difference("whole/model", "stopped/model") < 1e-3


@pytest.mark.parametrize("job", ["hf-trainer"], indirect=True)
def test_a_tracking_server_that_is_gone_ends_no_training(job: Job) -> None:
    nobody = f"http://127.0.0.1:{next(unused_ports())}"
    output = job.train("untracked", MLFLOW_TRACKING_URI=nobody)
    assert output.count("MLflow gets no more of this training: ") == 1, output
    assert (job.folder / "untracked" / "model" / "model.json").exists()


@pytest.mark.parametrize("job", ["ddp"], indirect=True)
def test_zero_without_its_package_is_refused(job: Job) -> None:
    words = ("--sharding", "zero3", "--train-dir", "data", "--model-dir", "model")
    end = job.runtime.run(job.runtime.alone(job.code / "train.py", *words), job.folder)
    assert (end.returncode, "error: zero3 needs deepspeed" in end.output) == (2, True), end.output


@of_all
@pytest.mark.parametrize("parts", ["1", "3"])
def test_training_begins_with_a_base_in_one_file_or_more(job: Job, parts: str) -> None:
    assert job.ask("base", job.family, "base", parts)["files"] == int(parts)
    job.train("more", "--learning-rate", "0", "--base-dir", "base")
    assert job.difference("base", "more/model") == 0


def test_torchtitan_computes_the_loss_of_transformers(tmp_path: Path) -> None:
    folders = [tmp_path / case for case in ("torchtitan", "ddp")]
    base, losses = tmp_path / "torchtitan" / "base", []
    for folder in folders:
        folder.mkdir()
        job = job_of(folder.name, folder)
        if not base.exists():
            job.ask("base", "qwen3", "base", "1")
        output = job.train("same", "--learning-rate", "0", "--base-dir", str(base))
        losses.append(losses_in(job, output)[-1])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.parametrize("job", ["torchtitan"], indirect=True)
def test_torchtitan_refuses_a_base_of_another_family(job: Job) -> None:
    job.ask("base", "llama", "base", "1")
    words = ("--train-dir", "data/train", "--model-dir", "model", "--base-dir", "base")
    end = job.runtime.run(job.runtime.alone(job.code / "train.py", *words), job.folder)
    assert (end.returncode, "this template trains qwen3, not llama" in end.output) == (2, True)


@of_sft
def test_the_loss_is_that_of_the_assistants_tokens(job: Job) -> None:
    losses = job.ask("loss", "data/test")
    assert losses["trl"] == pytest.approx(losses["plain"], abs=1e-6)
    assert losses["evaluated"] == pytest.approx(losses["plain"], abs=1e-6)


@of_sft
def test_an_adapter_loads_in_peft_and_is_merged_in_what_is_served(job: Job) -> None:
    job.ask("base", "qwen3", "base", "1")
    job.train("lora", "--lora-rank", "4", "--base-dir", "base")
    applied = job.ask("adapter", "base", "lora/model/adapter", "lora/model")
    assert applied["to_merged"] < 1e-5
    assert applied["to_base"] > 1e-4


def losses_in(job: Job, output: str) -> list[float]:
    """Return the losses of a log, as the workload's expression reads them."""
    expression = load_workload("fresh", job.folder).metrics["train:loss"].regex
    return [float(text) for text in re.findall(expression, output)]
