"""Other workloads go the same way as the digits, from their datasets to teardown."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.verbs.new_workload import TASKS
from tests.end_to_end.conftest import Checkout
from tests.repository import CHECKOUT

HOUSES = """
name: houses
project: examples
workload: houses
account: "111122223333"
region: us-east-1
protect: false
network: {training_az_id: use1-az4, hosting_az_ids: [use1-az1, use1-az2]}
training: {strategy: torchrun, instance_type: ml.m5.xlarge, instance_count: 2}
"""


@pytest.mark.nightly
def test_a_regression_passes_its_gates_and_its_smoke_test(
    checkout: Checkout, tmp_path: Path
) -> None:
    own = checkout.with_environment(tmp_path, "houses", HOUSES)
    finished = own.run("demo", "houses")
    assert finished.exit_code == 0, finished.output
    summary = own.summary()
    assert summary["metrics"]["rmse"] < 62
    assert [answer["request"] for answer in summary["endpoint_answers"]] == [
        "one-person.json",
        "light-and-heavy.json",
        "two-people.csv",
    ]
    assert summary["left_behind"] == []


@pytest.mark.nightly
def test_a_model_that_is_worse_than_the_approved_one_is_not_registered(
    checkout: Checkout, tmp_path: Path
) -> None:
    """Deployed with the policies of every role applied."""
    gate = "{metric: rmse, not_worse_than: approved, by: 1, direction: lower}"
    trained = HOUSES.replace("count: 2}", "count: 2, hyperparameters: {epochs: 40}}")
    text = f"{trained}evaluation: {{gates: [{gate}]}}\n"
    own = checkout.with_environment(tmp_path, "houses", text)
    assert own.run("local", "up", "houses", "--enforce-iam").exit_code == 0
    for command in (("deploy",), ("data", "upload"), ("run", "--follow")):
        done = own.run(*command, "houses", "--local")
        assert done.exit_code == 0, done.output
    first = own.run("status", "houses", "latest", "--local")
    assert "must be any number (no version is approved yet)" in first.output
    assert own.run("approve", "houses", "1", "--local").exit_code == 0
    worse = own.run("run", "houses", "--local", "--follow", "-p", "Epochs=1")
    second = own.run("status", "houses", "latest", "--local")
    own.run("local", "down")
    assert worse.exit_code != 0
    assert "version 1, approved, has 1" in worse.output
    assert "version 1, approved, has 1" in second.output


@pytest.mark.nightly
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
@pytest.mark.parametrize("task", TASKS)
def test_a_new_workload_runs_without_an_edit(tmp_path: Path, framework: str, task: str) -> None:
    own = Checkout.new(tmp_path)
    (tmp_path / "training_code").unlink()  # a link: what is written must not go there
    (tmp_path / "training_code").mkdir()
    for entry in (CHECKOUT / "training_code").iterdir():
        (tmp_path / "training_code" / entry.name).symlink_to(entry)
    written = own.run("new", "fresh", "--framework", framework, "--task", task)
    assert written.exit_code == 0, written.output
    finished = own.run("demo", "fresh")
    assert finished.exit_code == 0, finished.output
    answers = own.summary()["endpoint_answers"]
    assert [answer["passed"] for answer in answers] == [True, True]
    assert own.summary()["left_behind"] == []
