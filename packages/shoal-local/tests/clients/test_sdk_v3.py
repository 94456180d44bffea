"""SageMaker's SDK v3, unmodified and with its defaults: what came out of its jobs."""

from __future__ import annotations

import pytest

from local_kit.sagemaker_account import Account
from tests.clients.outcomes import Outcomes, run

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def outcomes(account: Account, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return run("sdk-v3", "sdk_v3.py", account, tmp_path_factory.mktemp("sdk-v3"))


def test_a_model_trainer_trains_and_a_model_builder_serves(outcomes: Outcomes) -> None:
    trained = outcomes["train_and_deploy"]
    assert trained["files"] == ["channel.txt", "model.pt"]
    assert trained["channel"] == "one.csv"
    ((answer,),) = trained["answer"]
    assert answer == pytest.approx(7, abs=0.01)


@pytest.mark.parametrize("case", ["torchrun_one_host", "torchrun_two_hosts"])
def test_torchruns_ranks_add_up(outcomes: Outcomes, case: str) -> None:
    assert outcomes[case] == "2 ranks, sum 1"


@pytest.mark.parametrize(
    ("case", "hosts"), [("mpi_one_host", "algo-1"), ("mpi_two_hosts", "algo-1 algo-2")]
)
def test_mpis_ranks_add_up(outcomes: Outcomes, case: str, hosts: str) -> None:
    assert outcomes[case] == f"2 ranks on {hosts}, sum 1"


def test_a_script_that_fails_fails_the_job(outcomes: Outcomes) -> None:
    assert "AlgorithmError" in outcomes["failing_script"]
    assert "fail.py" in outcomes["failing_script"]


def test_a_script_processor_reads_and_writes_s3(outcomes: Outcomes) -> None:
    assert outcomes["processor"] == "3"


def test_a_pipeline_runs_with_a_parameter(outcomes: Outcomes) -> None:
    assert outcomes["pipeline"] == {"status": "Succeeded", "steps": "7"}


def test_nothing_goes_past_the_emulator(outcomes: Outcomes) -> None:
    assert set(outcomes.hosts) <= {"localhost", "127.0.0.1"}
