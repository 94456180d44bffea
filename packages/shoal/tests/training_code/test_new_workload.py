"""What `shoal new` writes for a table trains on two processes, passes its own gates, and answers as
its own smoke test asks.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from shoal.aws.model_archive import content_sha256
from shoal.page.results import Evaluation
from shoal.settings.loading.workload import load_workload, workload_folder
from shoal.verbs.new_workload import TASKS, write_workload
from tests.functions.invocation import Outcome, Request, invoke, serving
from tests.functions.test_smoke_test import package
from tests.training_code.training import pack

JOB_NAME = "job-of-the-test"
CONSTANT = Path(__file__).with_name("scripts") / "fit_constant_column.py"
ANSWER = """
import json, sys
from pathlib import Path
import inference

def text_of(answer):
    return answer if isinstance(answer, str) else answer[0]


model = inference.model_fn(sys.argv[1])
requests = json.loads(Path(sys.argv[2]).read_text())
answers = [
    text_of(
        inference.output_fn(
            inference.predict_fn(inference.input_fn(each["body"], each["content_type"]), model),
            each["accept"],
        )
    )
    for each in requests
]
Path(sys.argv[3]).write_text(json.dumps(answers))
"""


@dataclass(frozen=True)
class Trained:
    """What a job on two processes left, and what the evaluation of it measured."""

    root: Path
    workload: str
    runtime: Runtime
    folder: Path
    output: str
    evaluation: Evaluation

    @property
    def archive(self) -> Path:
        return self.folder / "archive" / "model.tar.gz"

    def failed_gates(self) -> list[str]:
        """Return the metrics that its own gates would not let pass."""
        values = self.evaluation.metrics
        return [
            gate.metric
            for gate in load_workload(self.workload, self.root).gates
            if not (gate.at_least is None or values[gate.metric] >= gate.at_least)
            or not (gate.at_most is None or values[gate.metric] <= gate.at_most)
        ]

    def smoke_test(self, folder: Path) -> Outcome:
        """Answer its smoke test's requests by its own code, and return what the function says."""
        test = load_workload(self.workload, self.root).smoke_test
        assert test
        sent = [
            {
                "body": (workload_folder(self.workload, self.root) / each.body).read_text(),
                "content_type": each.content_type,
                "accept": each.accept,
            }
            for each in test.requests
        ]
        (folder / "requests.json").write_text(json.dumps(sent))
        (folder / "answer.py").write_text(ANSWER)
        files = (folder / "requests.json", folder / "answers.json")
        outcome = self.runtime.run(
            self.runtime.alone(folder / "answer.py", self.folder / "model", *files),
            folder,
            {"PYTHONPATH": str(self.folder / "model" / "code")},
        )
        assert outcome.returncode == 0, outcome.output
        answers = iter(json.loads((folder / "answers.json").read_text()))

        def answer(_: Request) -> tuple[int, bytes]:
            return 200, next(answers).encode()

        event = {
            "endpoint_name": "shoal-lab-table-abcdefghijkl",
            "training_job_name": JOB_NAME,
            "content_sha256": self.evaluation.content_sha256,
            "max_latency_ms": 60_000,
        }
        packed = package(folder / "function", self.workload, self.root)
        with serving(answer) as url:
            return invoke(packed, event, endpoint_url=url, module="step")


def prepare(root: Path, workload: str, folder: Path) -> Path:
    """Run the workload's prepare.py; return the folder with its channels."""
    script = workload_folder(workload, root) / "prepare.py"
    subprocess.run([sys.executable, str(script), "--out", str(folder)], check=True, timeout=60)
    return folder


def train(root: Path, workload: str, runtime: Runtime, folder: Path) -> Trained:
    """Prepare, train on two processes and evaluate, in `folder`."""
    code = workload_folder(workload, root) / "pytorch"
    data = prepare(root, workload, folder / "data")
    variables = {
        "SM_CHANNEL_TRAIN": str(data / "train"),
        "SM_MODEL_DIR": str(folder / "model"),
        "TRAINING_JOB_NAME": JOB_NAME,
    }
    job = runtime.run(runtime.torchrun(2, str(code / "train.py")), folder, variables)
    assert job.returncode == 0, job.output
    (folder / "archive").mkdir()
    pack(folder / "model", folder / "archive" / "model.tar.gz")
    options = ("--model-dir", folder / "archive", "--test-dir", data / "test")
    outputs = ("--output-dir", folder / "report")
    measured = runtime.run(runtime.alone(code / "evaluate.py", *options, *outputs), folder)
    assert measured.returncode == 0, measured.output
    report = (folder / "report" / "evaluation.json").read_bytes()
    return Trained(root, workload, runtime, folder, job.output, Evaluation.of(report))


def fit_constant_column(root: Path, workload: str, runtime: Runtime, folder: Path) -> str:
    """Return what the script says of the workload's network."""
    code = workload_folder(workload, root) / "pytorch"
    return runtime.run(runtime.alone(CONSTANT, code), folder).output


@pytest.mark.parametrize(
    "task", ["regression", pytest.param("classification", marks=pytest.mark.nightly)]
)
def test_it_works_at_once(runtime: Runtime, tmp_path: Path, task: str) -> None:
    (tmp_path / "job").mkdir()
    write_workload(tmp_path, "fresh", task)
    trained = train(tmp_path, "fresh", runtime, tmp_path / "job")
    assert trained.failed_gates() == []
    with trained.archive.open("rb") as archive:
        assert trained.evaluation.content_sha256 == content_sha256(archive)
    tested = trained.smoke_test(tmp_path)
    assert not tested.error
    assert tested.result["status"] == "Passed"


def test_an_interrupted_and_resumed_job_equals_an_undisturbed_one_to_the_bit(
    runtime: Runtime, tmp_path: Path
) -> None:
    write_workload(tmp_path, "fresh", "regression")
    script = workload_folder("fresh", tmp_path) / "pytorch" / "train.py"
    data = prepare(tmp_path, "fresh", tmp_path / "data")

    def trained(name: str, epochs: int) -> str:
        folders = {"SM_CHANNEL_TRAIN": data / "train", "SM_MODEL_DIR": tmp_path / name / "model"}
        command = runtime.torchrun(2, script, "--epochs", f"{epochs}")
        job = runtime.run(command, tmp_path, {key: f"{each}" for key, each in folders.items()})
        assert job.returncode == 0, job.output
        return job.output

    trained("undisturbed", 3)
    trained("interrupted", 1)  # its checkpoint is what a kill in the second epoch leaves
    (tmp_path / "interrupted" / "checkpoints" / "checkpoint.pt.partial").write_bytes(b"half")
    assert re.findall(r"epoch=(\d+)", trained("interrupted", 3)) == ["2", "3"]
    names = ("undisturbed", "interrupted")
    first, second = (tmp_path / each / "model" / "model.pt" for each in names)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("task", TASKS)
def test_a_constant_column_leaves_numbers(runtime: Runtime, tmp_path: Path, task: str) -> None:
    write_workload(tmp_path, "fresh", task)
    assert fit_constant_column(tmp_path, "fresh", runtime, tmp_path) == "True True\n"


def test_the_dataset_is_the_same_each_time(tmp_path: Path) -> None:
    write_workload(tmp_path, "fresh", "regression")
    first, second = (prepare(tmp_path, "fresh", tmp_path / name) for name in ("first", "second"))
    for channel in ("train", "test"):
        text = (first / channel / "trips.csv").read_bytes()
        assert text == (second / channel / "trips.csv").read_bytes()
        assert text.startswith(b"distance_km,stops,load_kg,minutes\n")
