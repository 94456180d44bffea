"""Other workloads go the same way as the digits, from their datasets to teardown: those that only
train, and those that are deployed again, too.
"""

from pathlib import Path

import pytest

from shoal.verbs.new_workload import TASKS, TRAINERS
from tests.end_to_end.conftest import Checkout, environment_text
from tests.repository import BASE_MODEL, add_letters

PRICES = environment_text("prices")


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_tensorflow_model_is_evaluated_sealed_and_served(tmp_path: Path) -> None:
    own = Checkout.new(tmp_path)
    strategy = ("--strategy", "tensorflow-smddp")
    short = ("-p", "Epochs=1", "-p", "MinAccuracy=0.9")
    own.succeed("demo", "dev", *strategy, *short, timeout_s=1000)
    run = own.run_json()
    assert run["metrics"]["values"]["images"] == 10_000
    assert sum(answer["passed"] for answer in run["answers"]) >= 9
    assert own.summary()["left_behind"] == []


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_language_model_completes_sentences(checkout: Checkout, tmp_path: Path) -> None:
    own = checkout.with_environment(tmp_path, "language")
    own.succeed("demo", "language", timeout_s=1000)
    run = own.run_json()
    measured = run["metrics"]["values"]
    assert measured["xz_bits_per_byte"] < measured["gzip_bits_per_byte"] < 1.5
    assert measured["bits_per_byte"] < 2.5
    shown = {each["request"]: each["shown"]["text"] for each in run["answers"]}
    assert shown["resource-name.json"] == "ARN"
    assert own.summary()["left_behind"] == []


COMPARED = (
    "evaluation:\n"
    "  gates: [{metric: rmse, not_worse_than: approved, by: 1, direction: lower}]\n"
    "schedules: [{name: weekly, expression: rate(7 days), paused: true}]\n"
)


def functions(own: Checkout) -> set[str]:
    """Return the names of the functions that are deployed, without the environment's prefix."""
    listed = own.local_target.client("lambda").list_functions()["Functions"]
    return {each["FunctionName"].removeprefix("shoal-examples-prices-") for each in listed}


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_worse_model_is_refused_and_endpoint_gate_and_schedules_can_go(
    checkout: Checkout, tmp_path: Path
) -> None:
    """Deployed with the policies of every role applied.

    The emulator refuses to delete an export that is in use, as CloudFormation does
    (packages/shoal-local/tests/control/test_cloudformation.py).
    """
    trained = PRICES.replace("count: 2}", "count: 2, hyperparameters: {epochs: 30}}")
    own = checkout.with_environment(tmp_path, "prices", trained + COMPARED)
    with own.emulator("prices"):
        for command in (("deploy",), ("data", "upload"), ("run", "--follow")):
            own.succeed(*command, "prices", "--local")
        first = own.succeed("status", "prices", "latest", "--local")
        own.succeed("release", "approve", "prices", "1", "--local")
        worse = own.run("run", "prices", "--local", "--follow", "-p", "Epochs=1")
        second = own.succeed("status", "prices", "latest", "--local")
        before = functions(own)
        (tmp_path / "environments" / "prices.yaml").write_text(f"{PRICES}endpoint: none\n")
        own.succeed("deploy", "prices", "--local")
        gone = before - functions(own)
        queues = own.local_target.client("sqs").list_queues().get("QueueUrls", [])
        own.succeed("destroy", "prices", "--local")
    assert "must be any number (no version is approved yet)" in first
    assert worse.exit_code != 0
    assert "version 1, approved, has 5" in worse.output
    assert "version 1, approved, has 5" in second
    assert gone == {"compare", "smoke-test", "start", "teardown"}
    assert queues == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    "kind", [*(f"--task={task}" for task in TASKS), *(f"--trainer={name}" for name in TRAINERS)]
)
def test_a_new_workload_runs_without_an_edit(tmp_path: Path, kind: str) -> None:
    own = Checkout.new(tmp_path)
    own.succeed("new", "fresh", kind)
    own.succeed("demo", "fresh")
    sent = [each.name for each in (own.root / "training_code/fresh/smoke_test").iterdir()]
    passed = [(answer["request"], answer["passed"]) for answer in own.run_json()["answers"]]
    assert sorted(passed) == [(name, True) for name in sorted(sent)]
    assert own.summary()["left_behind"] == []


@pytest.mark.nightly
def test_what_only_trains_is_registered_and_removed(checkout: Checkout, tmp_path: Path) -> None:
    own = checkout.with_environment(tmp_path, "lab", BASE_MODEL)
    add_letters(own.root)
    own.succeed("demo", "lab", "--enforce-iam")
    summary = own.summary()
    run = own.run_json()
    assert [step["name"] for step in run["steps"] if step["status"] == "Succeeded"] == [
        *("Train", "Evaluate", "Gate", "Seal", "Register")
    ]
    assert run["metrics"]["values"]["bits_per_letter"] < 4
    assert run["metrics"]["values"]["pairs"] > 2000  # 1000 of them are in the base model
    assert run["package"]["approval"] == "PendingManualApproval"
    assert "Endpoint" not in {each["kind"] for each in run["made"]}
    assert summary["left_behind"] == []
