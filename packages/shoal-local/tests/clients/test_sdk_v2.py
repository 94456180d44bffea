"""SageMaker's SDK v2, unmodified and with its defaults: what came out of its jobs."""

from __future__ import annotations

import pytest

from local_kit.sagemaker_account import Account
from tests.clients.outcomes import Outcomes, run

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def outcomes(account: Account, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return run("sdk-v2", "sdk_v2.py", account, tmp_path_factory.mktemp("sdk-v2"))


def test_pytorch_trains_and_the_job_that_is_attached_again_serves_its_model(
    outcomes: Outcomes,
) -> None:
    fitted = outcomes["fit_deploy_and_attach"]
    assert fitted["files"] == ["channel.txt", "model.pt"]
    assert fitted["channel"] == "one.csv"
    assert fitted["hyperparameters"]["steps"] == "20"
    (loss,) = fitted["loss"]
    assert 0 < loss < 1
    ((answer,),) = fitted["answer"]
    assert answer == pytest.approx(7, abs=1.0)
    assert fitted["left"] == []


def test_tensorflow_trains_and_serves(outcomes: Outcomes) -> None:
    trained = outcomes["tensorflow"]
    assert "1/saved_model.pb" in trained["files"]
    assert trained["answer"] == {"predictions": [[7.0], [1.0]]}


def test_script_and_framework_processors_read_and_write_s3(outcomes: Outcomes) -> None:
    assert outcomes["processors"] == {"script": "3", "framework": "3"}


def test_what_an_sklearn_processor_writes_trains_an_estimator_that_serves(
    outcomes: Outcomes,
) -> None:
    assert outcomes["scikit_learn"] == {"answer": [6.0, 10.0], "files": ["model.joblib"]}


def test_a_tuner_names_the_best_of_its_training_jobs(outcomes: Outcomes) -> None:
    tuned = outcomes["tuned"]
    assert tuned["jobs"] == 2
    assert tuned["best"] == tuned["best_of_table"]


def test_a_pipeline_runs_with_a_parameter_and_passes_the_model_on(outcomes: Outcomes) -> None:
    assert outcomes["pipeline"] == {
        "states": {"Train": "Succeeded", "Process": "Succeeded"},
        "steps": "7",
    }


def test_ranks_of_two_hosts_with_two_gpus_add_up(outcomes: Outcomes) -> None:
    assert outcomes["two_hosts"] == "4 ranks, sum 6"


def test_a_script_that_fails_fails_the_job_with_its_own_line(outcomes: Outcomes) -> None:
    failed = outcomes["failing_script"]
    assert failed["status"] == "Failed"
    assert "AlgorithmError" in failed["error"]
    assert "no such digit: 11" in failed["error"]


def test_nothing_goes_past_the_emulator(outcomes: Outcomes) -> None:
    assert set(outcomes.hosts) <= {"localhost", "127.0.0.1"}
