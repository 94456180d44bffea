"""What the PyTorch and the TensorFlow script of the digits have in common, and what TensorFlow's
distributed scripts learn, evaluate and serve.

The watch reads the progress of jobs without a collective of PyTorch: it leaves them alone while
they go on, and ends one of which a process stands still.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from local_kit.commands import unused_ports
from local_kit.runtime import Outcome, Runtime, finish
from local_kit.tables import rows, table
from shoal.aws.model_archive import content_sha256
from shoal.launch import watch
from shoal.settings.parsing.plain_files import archive_files
from tests.training_code import training
from tests.training_code.conftest import GLOBAL_BATCH, STEPS
from tests.training_code.tensorflow.job import CODE, OPTIONS, Job, parameter_server, start
from tests.training_code.training import (
    DATA,
    EPOCH,
    PROGRESS,
    Trained,
    accuracies,
    children,
    losses,
    pack,
    write_watched,
)

SCRIPTS = Path(training.__file__).with_name("scripts")
TENSORFLOW_SCRIPTS = Path(__file__).with_name("scripts")
EXPECTED = table(__file__, "both.yaml")


@dataclass(frozen=True)
class Framework:
    """A framework's script, and its undisturbed job of two epochs in one process."""

    name: str
    trained: Trained[training.Job | Job]
    code: Path
    scripts: Path

    @property
    def job(self) -> training.Job | Job:
        return self.trained.job

    @property
    def output(self) -> str:
        return self.trained.outcome.output

    def run(self, folder: Path, *options: str) -> Outcome:
        """Run train.py in a folder, with options."""
        return replace(self.job, folder=folder, options=options).run()

    def evaluated(
        self, folder: Path, change: Callable[[Path], object] = lambda model: None
    ) -> Outcome:
        """Evaluate a copy of the model that was changed."""
        model = Path(shutil.copytree(self.job.model_dir, folder / "model"))
        change(model)
        pack(model, folder / "model.tar.gz")
        options = ("--model-dir", folder, "--output-dir", folder, "--test-dir")
        runtime, test_dir = self.job.runtime, self.job.dataset / "test"
        return runtime.run(runtime.alone(self.code / "evaluate.py", *options, test_dir), folder)


@pytest.fixture(params=["pytorch", "tensorflow"])
def framework(request: pytest.FixtureRequest) -> Framework:
    if request.param == "pytorch":
        trained = request.getfixturevalue("trained")
        return Framework(request.param, trained, training.CODE, SCRIPTS)
    alone = request.getfixturevalue("alone")
    return Framework(request.param, alone, CODE, TENSORFLOW_SCRIPTS)


of_tensorflow = pytest.mark.parametrize("framework", ["tensorflow"], indirect=True)


def test_metrics_have_the_form_that_the_metric_definitions_look_for(framework: Framework) -> None:
    lines = [line for line in framework.output.splitlines() if line.startswith("epoch=")]
    assert len(lines) == 2 * STEPS + 2
    assert all(PROGRESS.fullmatch(line) or EPOCH.fullmatch(line) for line in lines)


def test_the_model_learns(framework: Framework) -> None:
    """Twenty steps are far from enough for 99 %; guessing gives 0.1."""
    assert accuracies(framework.output)[-1] > 0.7


def test_the_learning_rate_peaks_after_the_warm_up_and_falls_to_zero(framework: Framework) -> None:
    rates = [float(match[5]) for match in PROGRESS.finditer(framework.output)]
    assert rates[int(0.3 * len(rates))] == max(rates) == 0.01
    last = 0.01 / (0.7 * len(rates))  # zero comes after the last step
    if framework.name == "pytorch":
        assert rates[-1] == pytest.approx(last, abs=1e-6)
    else:
        assert rates[-1] < 0.0002


def test_the_model_folder_holds_weights_metadata_and_serving_code(framework: Framework) -> None:
    folder = framework.job.model_dir
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == set(EXPECTED["files"][framework.name])
    for name in (each for each in files if each.startswith("code/")):
        source = archive_files(framework.code)[name.removeprefix("code/")]
        assert (folder / name).read_bytes() == source.read_bytes()
    metadata: dict[str, Any] = json.loads((folder / "model.json").read_text())
    expected = {
        "training_job_name": training.JOB_NAME,
        "batch_size": GLOBAL_BATCH,
        "world_size": 1,
        "test_accuracy": pytest.approx(accuracies(framework.output)[-1]),
    }
    assert {name: metadata[name] for name in expected} == expected


@pytest.mark.parametrize(("options", "message"), rows(__file__, "both.yaml", "wrong_options"))
def test_a_wrong_option_is_one_clear_error(
    framework: Framework, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    outcome = framework.run(tmp_path, *options)
    assert outcome.returncode != 0
    assert message in outcome.output.splitlines()[-1]


def test_weights_that_are_no_numbers_are_not_saved(framework: Framework, tmp_path: Path) -> None:
    folder, script = tmp_path / "model", SCRIPTS / "save_spoilt_weights.py"
    command = framework.job.runtime.alone(script, framework.code, folder)
    outcome = framework.job.runtime.run(command, tmp_path)
    assert outcome.output.splitlines()[-1].startswith(
        "ValueError: the weights are not finite, no model is saved"
    )
    assert list(folder.glob("*")) == []


def test_a_finished_job_that_is_started_again_only_saves_its_model(framework: Framework) -> None:
    weights = framework.job.weights
    again = framework.job.run().output
    assert (losses(again), accuracies(again)) == ({}, accuracies(framework.output)[-1:])
    assert framework.job.weights == weights


def test_a_checkpoint_of_other_settings_is_refused(framework: Framework, tmp_path: Path) -> None:
    settings = ("--epochs", "2", "--batch-size", str(GLOBAL_BATCH), "--seed", "2")
    folder = str(framework.job.checkpoint_dir)
    outcome = framework.run(tmp_path, *settings, "--checkpoint-dir", folder)
    assert outcome.returncode != 0
    assert (
        "is from a run with other settings: seed 1 (now 2); use them or another --checkpoint-dir"
        in outcome.output.splitlines()[-1]
    )


def test_the_report_holds_the_accuracy_that_training_measured(
    framework: Framework, tmp_path: Path
) -> None:
    assert framework.evaluated(tmp_path).returncode == 0
    report: dict[str, Any] = json.loads((tmp_path / "evaluation.json").read_text())
    values = {name: each["value"] for name, each in report["metrics"].items()}
    assert values["accuracy"] == pytest.approx(accuracies(framework.output)[-1])
    assert values["images"] == 1000
    assert report["model"]["training_job_name"] == training.JOB_NAME


def test_a_damaged_model_is_refused(framework: Framework, tmp_path: Path) -> None:
    size = 5000 if framework.name == "pytorch" else 200

    def damage(model: Path) -> None:
        for path in model.rglob("*"):
            if path.is_file() and path.suffix not in (".json", ".py"):
                path.write_bytes(path.read_bytes()[:size])

    outcome = framework.evaluated(tmp_path, damage)
    assert outcome.returncode == 1
    assert "holds a damaged model" in outcome.output


def test_an_archive_needs_a_model(framework: Framework, tmp_path: Path) -> None:
    missing = {"pytorch": "model.pt", "tensorflow": "1/saved_model.pb"}[framework.name]
    outcome = framework.evaluated(tmp_path, lambda model: (model / missing).unlink())
    assert f"holds no model: {missing} is missing" in outcome.output.splitlines()[-1]


def test_endpoints_answer_and_refuse(framework: Framework, dataset: Path, tmp_path: Path) -> None:
    digest = digest_of(framework.job.model_dir, tmp_path)
    images, answer = dataset / "test" / "t10k-images-idx3-ubyte", tmp_path / "answer.json"
    script = framework.scripts / "send_requests.py"
    command = framework.job.runtime.alone(script, framework.job.model_dir, images, answer)
    answers = framework.job.runtime.answer(command, tmp_path)
    predictions = answers["json"]["predictions"]
    labels = list((DATA / "t10k-labels-idx1-ubyte").read_bytes()[8:18])
    right = [each["digit"] == label for each, label in zip(predictions, labels, strict=True)]
    assert sum(right) >= 8
    assert [sum(each["probabilities"]) for each in predictions] == pytest.approx([1.0] * 10)
    model = {"training_job_name": training.JOB_NAME, "content_sha256": digest}
    assert answers["json"]["model"] == model
    assert answers["same"]  # npy and JSON give the same probabilities
    assert (answers["npy"]["dtype"], answers["npy"]["shape"]) == ("float32", [10, 10])
    for reasons in (EXPECTED["refused"]["both"], EXPECTED["refused"][framework.name]):
        assert [text for name, text in reasons.items() if text not in answers[name]] == []


EQUAL = {"rel": 1e-3, "abs": 1e-4}, {"rel": 1e-2, "abs": 1e-3}
"""Of the first epoch and of the second: at this learning rate, another order of additions changes
the loss by ten times as much every two steps (measured: 7e-7 in step 5, 2e-3 in step 18).
"""
ROUNDED = ({"rel": 0.5, "abs": 0.1},) * 2
"""bfloat16 has 8 bits: of a learning that begins, only the course stays the same."""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "flags", "replicas", "close"),
    [
        ("smddp", "", 2, EQUAL),
        ("horovod", "", 2, EQUAL),
        ("mirrored", "", 2, EQUAL),
        ("multi_worker_mirrored", "", 2, EQUAL),
        ("mirrored", "--precision bf16", 2, ROUNDED),
        ("none", "--xla True", 1, EQUAL),
        ("none", "--deterministic False", 1, EQUAL),
    ],
)
def test_every_way_learns_what_one_process_learns(
    alone: Trained[Job],
    undisturbed: Callable[..., Trained[Job]],
    strategy: str,
    flags: str,
    replicas: int,
    close: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """One process prints metrics and saves the model."""
    trained = undisturbed(strategy, *flags.split())
    expected, output = alone.outcome.output, trained.outcome.output
    assert len(losses(expected)) == 2 * STEPS
    for number, limits in enumerate(close, 1):
        of_epoch = {at: loss for at, loss in losses(expected).items() if at[0] == number}
        reached = {at: loss for at, loss in losses(output).items() if at[0] == number}
        assert reached == pytest.approx(of_epoch, **limits)
        at = number - 1
        assert accuracies(output)[at] == pytest.approx(accuracies(expected)[at], abs=limits["rel"])
    lines = PROGRESS.findall(output)
    assert (len(lines), {match[-1] for match in lines}) == (2 * STEPS, {str(replicas)})
    metadata = json.loads((trained.job.model_dir / "model.json").read_text())
    assert metadata["world_size"] == replicas
    assert (trained.job.model_dir / "1" / "saved_model.pb").is_file()


@pytest.mark.nightly
def test_parameter_servers_train_asynchronously_and_end_with_the_chief(job: Job) -> None:
    with parameter_server(job, "--epochs", "6") as (chief, others):
        outcome = finish(chief)
        assert outcome.returncode == 0, outcome.output
        assert [finish(process).returncode for process in others] == [0, 0, 0]
    assert accuracies(outcome.output)[-1] > 0.7
    assert json.loads((job.model_dir / "model.json").read_text())["world_size"] == 2


def test_a_parameter_server_job_of_one_host_is_refused(job: Job) -> None:
    outcome = job.alone("train_parameter_server.py")
    assert outcome.returncode != 0
    assert (
        "TF_CONFIG is not set: the toolkit starts parameter servers only in jobs of two or more"
        in outcome.output.splitlines()[-1]
    )


@of_tensorflow
def test_another_graph_with_the_same_variables_is_another_model(
    framework: Framework, tmp_path: Path
) -> None:
    unknown_field = b"\x82\x7d\x00"  # number 2000, empty: the graph computes the same
    outcome = framework.evaluated(
        tmp_path, lambda model: (model / "1/saved_model.pb").open("ab").write(unknown_field)
    )
    assert outcome.returncode == 0, outcome.output
    report: dict[str, Any] = json.loads((tmp_path / "evaluation.json").read_text())
    changed, honest = (
        digest_of(each, tmp_path) for each in (tmp_path / "model", framework.job.model_dir)
    )
    assert report["model"]["content_sha256"] == changed != honest


def digest_of(model: Path, folder: Path) -> str:
    """Return the digest of a model as it is packed."""
    pack(model, folder / "model.tar.gz")
    with (folder / "model.tar.gz").open("rb") as archive:
        return content_sha256(archive)


@of_tensorflow
def test_a_second_version_that_could_serve_is_refused(framework: Framework, tmp_path: Path) -> None:
    outcome = framework.evaluated(tmp_path, lambda model: shutil.copytree(model / "1", model / "2"))
    assert outcome.output.splitlines()[-1].endswith("holds versions 1, 2: which one serves?")


STALL_S = {True: 15, False: 60}
"""Of a job that stands still, or that goes on: its chief may take long to end on a busy machine."""


@dataclass(frozen=True)
class Watched(Job):
    """A job whose scripts the watch starts."""

    port: int = 0
    stall_s: int = 0

    def start(
        self, command: Sequence[str], extra: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        script = next((each for each in command if each.startswith(str(CODE))), "")
        config = {"script": script, "progress": ["train_loss=([0-9.]+)"], "stall_s": self.stall_s}
        if script and not (self.folder / watch.FOLDER).exists():  # else a process reads them
            write_watched(self.folder, config)
        place = {"SM_OUTPUT_DIR": str(self.folder), "MASTER_ADDR": "127.0.0.1"}
        place["MASTER_PORT"] = str(self.port)
        if "TF_CONFIG" in (extra or {}):
            known = json.loads(dict(extra or {})["TF_CONFIG"])
            first = {"ps": 1, "worker": 3 if "master" in known["cluster"] else 0}
            place["RANK"] = str(first.get(known["task"]["type"], 0) + known["task"]["index"])
        program = str(self.folder / watch.PROGRAM)
        watched = [program if each == script else each for each in command]
        return super().start(watched, {**(extra or {}), **place})


@pytest.mark.nightly
@pytest.mark.parametrize(("strategy", "stands_still"), rows(__file__, "both.yaml", "watched"))
def test_a_job_of_tensorflow_is_watched(
    tensorflow: Runtime, dataset: Path, tmp_path: Path, strategy: str, stands_still: bool
) -> None:
    stall_s = STALL_S[stands_still]
    job = Watched(tensorflow, dataset, tmp_path, OPTIONS, next(unused_ports()), stall_s)
    with ExitStack() as stack:
        if strategy == "parameter_server":
            chief, others = stack.enter_context(parameter_server(job))
        else:
            chief, *others = start(job, strategy)
        assert chief.stdout
        head = ""
        if stands_still:
            while "step=4/" not in head:
                head += (line := chief.stdout.readline())
                assert line, head
            os.kill(others[0].pid if others else children(chief)[-1], signal.SIGSTOP)
        outcome = finish(chief)
    output = head + outcome.output
    failure = tmp_path / "failure"
    assert "shoal: no watch" not in output
    assert (outcome.returncode != 0, failure.exists()) == (stands_still, stands_still), output
    if stands_still:
        assert " s after steps of at most " in failure.read_text()  # so it read the lines
