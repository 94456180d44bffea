"""SageMaker's SDKs v2 and v3, unmodified and with their defaults, each in its own environment: what
came out of their jobs; and the blocks of docs/guides/clients.md, typed one after the other.
"""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local_kit.commands import ended, printed
from local_kit.control import allow, put_policies
from local_kit.sagemaker_account import BUCKET, Account
from shoal_local.testing import emulator
from tests.control.test_clis import node

ROOT = Path(__file__).resolve().parents[4]
PROGRAMS = Path(__file__).with_name("programs")
LIMIT_S = 1800
DONE = "Succeeded"


@dataclass(frozen=True)
class Outcomes:
    """What the cases of one program came to."""

    report: dict[str, Any]

    def __getitem__(self, case: str) -> Any:
        """Return the case's value; fail the test with the case's traceback if it has none."""
        outcome = self.report["outcomes"][case]
        if "error" in outcome:
            pytest.fail(f"{case}:\n{outcome['error']}", pytrace=False)
        return outcome["value"]

    @property
    def hosts(self) -> list[str]:
        """Return the names that the program looked up."""
        return list(self.report["hosts"])


def interpreter(client: str) -> Path:
    """Return the interpreter of a client's environment; fail the test if it is not installed."""
    python = ROOT / ".shoal" / client / "bin" / "python"
    if not python.exists():
        pytest.fail(f"{client} is not installed: run `python3 dev/tools/install.py sdks`")
    return python


def role(account: Account) -> str:
    """Return a role that may do everything, as the SDK v3 looks whether it may train."""
    put_policies(account.client("iam"), "jobs", {"everything": allow("*")})
    return account.role


def environment(account: Account, folder: Path) -> dict[str, str]:
    """Return the variables of docs/guides/clients.md, and nothing else of AWS."""
    return account.environment() | {
        "HOME": str(folder),
        "CASES_BUCKET": BUCKET,
        "CASES_ROLE": role(account),
        "SAGEMAKER_SUPPRESS_V2_WARNING": "1",
    }


def run(client: str, program: str, account: Account, folder: Path, *cases: str) -> Outcomes:
    """Run the cases of a program (all, unless some are named), and return what they came to."""
    report = folder / "report.json"
    process = ended(
        interpreter(client),
        PROGRAMS / program,
        report,
        *cases,
        cwd=folder,
        env=environment(account, folder),
        errors="replace",  # threads of the program share its output, and tear characters apart
        timeout=LIMIT_S,
    )
    (folder / "output.txt").write_text(process.stdout + process.stderr)
    if not report.exists():
        pytest.fail(f"{program} ended with {process.returncode}:\n{process.stderr[-4000:]}")
    return Outcomes(json.loads(report.read_text()))


pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


@contextmanager
def started(folder: Path) -> Iterator[Account]:
    """Yield the account of an emulator, started as a user does."""
    with emulator(folder / "state", "--accelerators", "2") as running:
        yield Account.at(running.account)


@pytest.fixture(scope="module")
def v2(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    folder = tmp_path_factory.mktemp("sdk-v2")
    with started(folder) as account:
        return run("sdk-v2", "sdk_v2.py", account, folder)


@pytest.fixture(scope="module")
def v3(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    folder = tmp_path_factory.mktemp("sdk-v3")
    with started(folder) as account:
        return run("sdk-v3", "sdk_v3.py", account, folder)


@pytest.mark.parametrize(
    ("sdk", "case", "outcome"),
    [
        ("v2", "processors", {"script": "3", "framework": "3"}),
        ("v2", "scikit_learn", {"answer": [6.0, 10.0], "files": ["model.joblib"]}),
        ("v2", "pipeline", {"states": dict.fromkeys(("Train", "Process"), DONE), "steps": "7"}),
        ("v2", "two_hosts", "4 ranks, sum 6"),
        ("v3", "torchrun_one_host", "2 ranks, sum 1"),
        ("v3", "torchrun_two_hosts", "2 ranks, sum 1"),
        ("v3", "mpi_one_host", "2 ranks on algo-1, sum 1"),
        ("v3", "mpi_two_hosts", "2 ranks on algo-1 algo-2, sum 1"),
        ("v3", "processor", "3"),
        ("v3", "pipeline", {"status": DONE, "steps": "7"}),
    ],
)
def test_what_a_client_starts_comes_to_its_end_and_result(
    request: pytest.FixtureRequest, sdk: str, case: str, outcome: Any
) -> None:
    assert request.getfixturevalue(sdk)[case] == outcome


@pytest.mark.parametrize("sdk", ["v2", "v3"])
def test_nothing_goes_past_the_emulator(request: pytest.FixtureRequest, sdk: str) -> None:
    assert set(request.getfixturevalue(sdk).hosts) <= {"localhost", "127.0.0.1"}


def test_pytorch_trains_and_the_job_that_is_attached_again_serves_its_model(
    v2: Outcomes,
) -> None:
    fitted = v2["fit_deploy_and_attach"]
    assert fitted["files"] == ["channel.txt", "model.pt"]
    assert fitted["channel"] == "one.csv"
    assert fitted["hyperparameters"]["steps"] == "20"
    (loss,) = fitted["loss"]
    assert 0 < loss < 1
    ((answer,),) = fitted["answer"]
    assert answer == pytest.approx(7, abs=1.0)
    assert fitted["left"] == []


def test_tensorflow_trains_and_serves(v2: Outcomes) -> None:
    trained = v2["tensorflow"]
    assert "1/saved_model.pb" in trained["files"]
    assert trained["answer"] == {"predictions": [[7.0], [1.0]]}


def test_a_tuner_names_the_best_of_its_training_jobs(v2: Outcomes) -> None:
    tuned = v2["tuned"]
    assert tuned["jobs"] == 2
    assert tuned["best"] == tuned["best_of_table"]


def test_a_model_trainer_trains_and_a_model_builder_serves(v3: Outcomes) -> None:
    trained = v3["train_and_deploy"]
    assert trained["files"] == ["channel.txt", "model.pt"]
    assert trained["channel"] == "one.csv"
    ((answer,),) = trained["answer"]
    assert answer == pytest.approx(7, abs=0.01)


def test_a_script_that_fails_fails_its_job_with_its_own_line(v2: Outcomes, v3: Outcomes) -> None:
    failed = v2["failing_script"]
    assert failed["status"] == "Failed"
    assert "AlgorithmError" in failed["error"]
    assert "no such digit: 11" in failed["error"]
    assert "AlgorithmError" in v3["failing_script"]
    assert "fail.py" in v3["failing_script"]


PAGE = ROOT / "docs" / "guides" / "clients.md"
SECTION = re.compile(r"^## (.+?)$(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ENVIRONMENTS = {"SageMaker SDK v2": "sdk-v2", "SageMaker SDK v3": "sdk-v3"}


def programs(section: str) -> list[str]:
    """Return the folders of the programs that a section types."""
    if section in ENVIRONMENTS:
        return [str(interpreter(ENVIRONMENTS[section]).parent)]
    own = (Path(sys.executable).parent, ROOT / "node_modules" / ".bin", Path(node()).parent)
    return [*map(str, own)]


def script() -> str:
    """Return the page as one script; each section finds its own programs."""
    parts = ["set -e"]
    for section, text in SECTION.findall(PAGE.read_text(encoding="utf-8")):
        blocks = BLOCK.findall(text)
        if blocks:
            parts += [f'PATH="{":".join(programs(section))}:/usr/bin:/bin"', *blocks]
    return "\n".join(parts)


def test_every_client_does_what_the_page_shows(tmp_path: Path) -> None:
    with started(tmp_path) as account:
        variables = account.environment() | {
            "HOME": str(tmp_path),
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CI": "true",
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(ROOT / ".shoal" / "jsii"),
            "SAGEMAKER_SUPPRESS_V2_WARNING": "1",
        }
        shown = printed("bash", input=script(), cwd=tmp_path, env=variables, timeout=1800)
    assert "v2 predicts [[7.0]]" in shown
    assert "v3 predicts [[7.0]]" in shown
    assert "\n2\n" in shown
    assert "stands for the image's" in shown
