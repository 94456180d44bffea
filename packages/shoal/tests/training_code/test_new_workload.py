"""What `shoal new` writes for a table trains on two processes, passes its own gates, and answers as
its own smoke test asks; and what runs before any script: installing requirements, and torchrun's
options.
"""

import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import pytest
from botocore.stub import Stubber

from local_kit.runtime import Runtime
from shoal.aws.model_archive import content_sha256
from shoal.launch import tables, watch
from shoal.launch.watch import install
from shoal.page.results import Evaluation
from shoal.settings.loading.workload import load_workload, workload_folder
from shoal.verbs.new_workload import TASKS, write_workload
from tests.functions.invocation import Outcome, Request, invoke, serving
from tests.functions.test_smoke_test import package
from tests.private_index import PACKAGE, VERSION, private_index
from tests.training_code.training import pack, write_watched

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


REPOSITORY = "arn:aws:codeartifact:eu-west-1:444455556666:repository/acme/pypi"
PLACE = "https://acme-444455556666.d.codeartifact.eu-west-1.amazonaws.com/pypi/pypi/"
DOMAIN = {"domain": "acme", "domainOwner": "444455556666"}
AT_URL = {"url": "https://nexus.example.com/simple/", "secret": "team/index", "region": "us-east-1"}
FORMS = {
    '{"username": "u", "password": "p"}': ("u", "p"),
    "a-token\n": ("__token__", "a-token"),
    "12345": ("__token__", "12345"),
    '{"username": "u"}': None,
}


class Stubs:
    """Clients whose requests botocore compares with the service's shapes and with what follows."""

    def __init__(self, *calls: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
        self.calls, self.regions = calls, set[str]()

    def __call__(self, service: str, region_name: str) -> Any:
        keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
        self.regions.add(region_name)
        client = boto3.client(service, region_name=region_name, **keys)  # type: ignore[call-overload]
        stubber = Stubber(client)
        for method, request, answer in self.calls:
            stubber.add_response(method, answer, request)
        stubber.activate()
        return client


def test_a_token_of_codeartifact_is_for_its_domain_and_short() -> None:
    token = DOMAIN | {"durationSeconds": install.TOKEN_S}
    place = DOMAIN | {"repository": "pypi", "format": "pypi"}
    stubs = Stubs(
        ("get_authorization_token", token, {"authorizationToken": "t0ken"}),
        ("get_repository_endpoint", place, {"repositoryEndpoint": PLACE}),
    )
    index = {"codeartifact": REPOSITORY, "region": "us-east-1"}
    assert install.login(index, stubs) == (f"{PLACE}simple/", "aws", "t0ken")
    assert stubs.regions == {"eu-west-1"}


@pytest.mark.parametrize("text", FORMS)
def test_a_secret_is_a_pair_or_a_token(text: str) -> None:
    stubs = Stubs(("get_secret_value", {"SecretId": "team/index"}, {"SecretString": text}))
    if (pair := FORMS[text]) is None:
        with pytest.raises(ValueError, match="team/index has no username and password"):
            install.login(AT_URL, stubs)
    else:
        assert install.login(AT_URL, stubs) == (AT_URL["url"], *pair)


@pytest.mark.parametrize("password", ['a"b\\c#d', "#1", '"quoted"', "p:a@s/s%20", "two words"])
def test_pip_finds_the_password_in_its_file_and_the_log_has_it_in_no_form(
    tmp_path: Path, password: str
) -> None:
    file, is_taken = tmp_path / "netrc", " " not in password
    with nullcontext() if is_taken else pytest.raises(ValueError, match="has white space"):
        install.write_login(file, "nexus.example.com", "me", password)
    assert file.stat().st_mode & 0o077 == 0
    for form in (password, quote(password, safe="")):
        assert form not in install.masked(f"GET https://me:{form}@nexus/", "me", password)


@pytest.mark.parametrize("version", [VERSION, "9.9"])
def test_one_rank_of_a_host_installs_and_the_others_wait(tmp_path: Path, version: str) -> None:
    requirements = f"{PACKAGE}=={version}\n".encode()
    with private_index() as url:
        index = {"index": {"url": url, "region": "us-east-1"}}
        write_watched(tmp_path, index, {watch.MOVED: requirements})
        command = [sys.executable, "-I", str(tmp_path / watch.FOLDER / "install.py")]
        variables = {"PATH": os.environ["PATH"], "PIP_TARGET": str(tmp_path / "packages")}
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        ranks = [subprocess.Popen(command, env=variables, text=True, **options) for _ in range(3)]
        said = [rank.communicate(timeout=100) for rank in ranks]
    is_there = version == VERSION
    assert [rank.returncode for rank in ranks] == [0 if is_there else 1] * 3
    assert "".join(log for _, log in said).count("shoal: installing") == 1
    assert (tmp_path / "packages" / f"{PACKAGE}.py").is_file() is is_there
    assert {f"found for {PACKAGE}==9.9" in reason for reason, _ in said} == {not is_there}
    assert (tmp_path / "requirements.txt").read_bytes() == requirements


ENDS_THE_JOB = """
import contextlib, io, json, sys
from torch.distributed.run import get_args_parser
def ends(word):
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            get_args_parser().parse_args(["train.py", word, "1"])
        except SystemExit:
            return True
    return False
options = sorted(o for a in get_args_parser()._actions for o in a.option_strings if o[:2] == "--")
words = sorted({option[:end] for option in options for end in range(3, len(option) + 1)})
short = [f"-{word[2]}" for word in words if len(word) == 3]
print(json.dumps([options, [word for word in (*words, *short) if ends(word)]]))
"""


@pytest.fixture(scope="module")
def torchrun(runtime: Runtime) -> tuple[list[str], set[str]]:
    """Return the options of the runtime's torchrun, and the words that end a job."""
    command = runtime.alone("-c", ENDS_THE_JOB)
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    options, words = json.loads(answer.stdout)
    return options, set(words)


def test_the_table_has_every_option_of_torchrun(torchrun: tuple[list[str], set[str]]) -> None:
    assert sorted(f"--{option}" for option in tables.torchrun_options()) == torchrun[0]


def test_just_the_names_that_end_a_job_are_ambiguous(torchrun: tuple[list[str], set[str]]) -> None:
    names = {
        option[:end] for option in tables.torchrun_options() for end in range(1, len(option) + 1)
    }
    as_words = {name: f"--{name}" if len(name) > 1 else f"-{name}" for name in names}
    assert {name for name in names if tables.torchrun_options_from(name)} == {
        name for name, word in as_words.items() if word in torchrun[1]
    }
