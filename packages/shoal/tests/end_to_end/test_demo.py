"""One run of `shoal demo`: to its end, what it leaves, what it costs in requests and processes, and
what IAM is asked in it.

A failing script and an interruption follow. Requests are those that the emulator wrote into its
log; `@cloud-copilot/iam-simulate` evaluates them by the policies that were deployed. A limit of
counts is that of its day and a quarter more: raise it with a reason. What depends on time is left
out of them: log lines go in batches, and the teardown's queue is polled.
"""

import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local_kit.tables import table
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal_local.control.authorization.evaluator import Evaluator
from tests.end_to_end.conftest import Checkout, Finished
from tests.identity.permissions import Recorded, Roles, every, named, recorded
from tests.identity.templates import like, synthesised
from tests.repository import ROOT

EXPECTED = table(__file__, "cases.yaml")["demo"]


def test_every_step_succeeds_and_progress_is_told(demo: Finished, checkout: Checkout) -> None:
    assert demo.exit_code == 0, demo.output
    steps = checkout.run_json()["steps"]
    expected = [*((name, "Succeeded") for name in EXPECTED["steps"]), ("GateFailed", "NotStarted")]
    assert [(step["name"], step["status"]) for step in steps] == expected
    seconds = {step["name"]: step["seconds"] for step in steps}
    assert all(seconds[name] > 0.5 for name in ("Train", "Evaluate", "CreateEndpoint"))
    told = (
        "and enforces the roles' policies",
        " images/s on 2 ranks",
        "step Train (Training): Succeeded",
        "test:accuracy 0.9",
        " kinds, left 0",
    )
    assert [text for text in told if text not in demo.output] == []


def test_the_model_is_accurate_and_registered(demo: Finished, checkout: Checkout) -> None:
    assert demo.exit_code == 0, demo.output
    run = checkout.run_json()
    assert run["metrics"]["values"]["accuracy"] >= 0.99
    speeds = [each for each in run["curves"] if each["name"] == "train:images_per_second"]
    assert all(value > 100 for _, value, _ in speeds[0]["points"][1:])
    assert [answer["request"] for answer in run["answers"]] == [f"{n}.json" for n in range(10)]
    assert sum(answer["passed"] for answer in run["answers"]) >= 9
    assert run["package"]["approval"] == "PendingManualApproval"


def test_what_was_created_is_named_and_all_gone(demo: Finished, checkout: Checkout) -> None:
    """Nothing but caches is written to the user's home."""
    summary = checkout.summary()
    kinds = {resource["kind"] for resource in summary["created"]}
    assert {"stack", "bucket", "role", "pipeline", "function", "vpc"} <= kinds
    made = {each["kind"]: each["gone"] for each in checkout.run_json()["made"]}
    assert {"Endpoint", "EndpointConfig", "Model", "TrainingJob"} <= {*made}
    assert all(made.values())
    assert summary["left_behind"] == []
    assert checkout.leftovers(demo.output) == []
    home = checkout.root / "home"
    written = [path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()]
    assert [path for path in written if not path.startswith((".cache/", ".cdk/cache/"))] == []


def test_logs_page_and_times_are_kept(demo: Finished, checkout: Checkout) -> None:
    folder = checkout.root / "demo-out"
    logs = {path.stem for path in (folder / "logs").glob("*.log")}
    assert {*EXPECTED["logs"]} - logs == set()
    text = (folder / "index.html").read_text()
    data = re.search(r'<script type="application/json" id="run">(.*?)</script>', text, re.DOTALL)
    assert data, demo.output
    run = json.loads(data[1])
    assert {"Train", "Evaluate", "SmokeTest", "Teardown"} <= set(run["logs"])
    assert {each["name"] for each in run["curves"]} >= {"train:loss", "test:accuracy"}
    assert run["verdict"]["outcome"] == "Succeeded"
    seconds = checkout.summary()["seconds"]
    assert {"synth", "deploy", "execute"} <= set(seconds)
    total = seconds.pop("total")
    assert sum(seconds.values()) == pytest.approx(total, abs=2.0)


@pytest.mark.nightly
def test_a_failing_script_is_quoted_and_leaves_nothing(checkout: Checkout) -> None:
    """It refuses its hyperparameters: a batch that is larger than the dataset."""
    output = checkout.root / "failed"
    failed = checkout.run("demo", "--output", str(output), "--parameter", "BatchSize=70000")
    assert failed.exit_code == 1, failed.output
    log, summary = output / "logs" / "Train.log", checkout.summary("failed")
    told = failed.output.partition("shoal demo: execute: ")[2]
    assert told.startswith("step Train failed")
    assert "global batch size 70000 is larger than the training set" in told
    assert f"whole log: {log}" in told
    assert log.is_file()
    assert (summary["status"], summary["left_behind"]) == ("Failed", [])
    assert checkout.leftovers(failed.output) == []


@pytest.mark.nightly
def test_ctrl_c_tears_down(checkout: Checkout) -> None:
    """It comes once training has begun to report."""
    lines = []
    with checkout.running("demo", "--output", str(checkout.root / "interrupted")) as process:
        for line in process.stdout or ():
            lines.append(line)
            if "images/s" in line:
                process.send_signal(signal.SIGINT)
                break
        rest, _ = process.communicate(timeout=120)
    output, summary = "".join(lines) + rest, checkout.summary("interrupted")
    assert process.returncode == 130, output
    assert (summary["status"], summary["left_behind"]) == ("Interrupted", [])
    assert checkout.leftovers(output) == []


TIMED = {"PutLogEvents", "GetQueueUrl", "ReceiveMessage"}
OBJECTS = 5
"""Four files of the dataset, and the code."""
REQUESTS_PER_LOOK = 4
"""For logs, at most."""
FUNCTIONS = 6
"""Smoke test, seal, teardown, pages, emptying of buckets and of the registry."""
SYNCED = "checkpoint.pt"
"""Goes to S3 whenever the job's folder is looked at and has changed, so how often depends on time.
"""


@pytest.fixture(scope="module")
def requests(demo: Finished, checkout: Checkout) -> list[dict[str, Any]]:
    log = checkout.root / "demo-out" / "logs" / "emulator-requests.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("role", EXPECTED["costs"])
def test_an_execution_asks_and_carries_as_much_as_it_did(
    requests: list[dict[str, Any]], role: str
) -> None:
    count, size = EXPECTED["costs"][role].values()
    own = [request for request in requests if f"-{role}/" in request["caller"]]
    asked = Counter(request["operation"] for request in own if request["operation"] not in TIMED)
    assert count * 5 // 8 < asked.total() <= count * 5 // 4, asked
    carried = sum(
        request["received"] + request["sent"]
        for request in own
        if not request["parameters"].get("Key", "").endswith(SYNCED)
    )
    assert size is None or size * 5 // 8 < carried <= size * 5 // 4


def test_training_fetches_each_object_once(requests: list[dict[str, Any]]) -> None:
    fetched = [
        request
        for request in requests
        if "-training/" in request["caller"] and request["operation"] == "GetObject"
    ]
    assert len(fetched) == OBJECTS


def test_following_costs_a_handful_of_requests_per_look(requests: list[dict[str, Any]]) -> None:
    asked = Counter(
        request["operation"] for request in requests if request["caller"].endswith(":root")
    )
    looks = asked["DescribePipelineExecution"]
    assert looks <= asked["ListPipelineExecutionSteps"] <= looks + 5
    assert asked["GetLogEvents"] + asked["DescribeLogStreams"] <= REQUESTS_PER_LOOK * looks + 40


@pytest.mark.usefixtures("demo")
def test_a_job_has_one_container_and_functions_keep_processes(checkout: Checkout) -> None:
    lines = (checkout.root / "demo-out" / "logs" / "emulator.log").read_text().splitlines()
    started = [line.partition(" started: ")[2] for line in lines if " started: " in line]
    containers = Counter(
        what.removeprefix("containers of ").partition("-")[0]
        for what in started
        if what.startswith("containers")
    )
    assert containers == {"training": 1, "processing": 1, "endpoint": 1}
    # One of each function; one more where the step and the rule call the teardown at once.
    functions = sum(what.startswith("lambda ") for what in started)
    assert FUNCTIONS <= functions <= FUNCTIONS + 1


NAMES = Names(load_environment("dev", ROOT))
LATE = "pages"
"""It waits for the end of a run, so a demo may be over before; test_verbs.py runs it under its
policy.
"""
ROOT_USER = "arn:aws:iam::111122223333:root"
DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
UNUSED: dict[str, dict[str, str]] = table(__file__, "cases.yaml")["unused"]
"""Actor -> Sid -> why the statement stays although no request used it."""


@pytest.fixture(scope="module")
def run(demo: Finished, checkout: Checkout) -> Recorded:
    assert demo.exit_code == 0, demo.output
    log = checkout.root / "demo-out" / "logs" / "emulator-requests.jsonl"
    run = recorded(log, NAMES.role(""))
    run.questions.pop(NAMES.role(LATE), None)
    return run


@pytest.fixture(scope="module")
def roles(run: Recorded) -> Iterator[Roles]:
    with Evaluator() as evaluator:
        yield Roles(evaluator, run.identity, run.resources)


@pytest.fixture(scope="module")
def used(run: Recorded, roles: Roles) -> set[tuple[str, str]]:
    """Role and Sid of every statement that allowed a recorded question."""
    return {
        (role, name.rpartition("/")[2])
        for role, question in every(run)
        for name in roles.decide(role, question).statements
    }


def test_the_deployed_policies_are_the_synthesised_ones(run: Recorded, tmp_path: Path) -> None:
    (templates,) = synthesised({"dev": NAMES.environment}, tmp_path).values()
    expected = templates.identity_policies()
    assert run.identity.keys() == expected.keys()
    assert [
        role for role in expected if not like(expected[role], run.identity[role], templates)
    ] == []


def test_no_role_is_denied_or_makes_an_unknown_call(demo: Finished, checkout: Checkout) -> None:
    """The CDK's roles, too."""
    assert demo.exit_code == 0, demo.output
    log = checkout.root / "demo-out" / "logs" / "emulator-requests.jsonl"
    lines = map(json.loads, log.read_text().splitlines())
    calls = [line for line in lines if line["caller"] != ROOT_USER]
    assert len(calls) > 200
    assert [call["operation"] for call in calls if call.get("unmapped")] == []
    assert [call for call in calls if call.get("error") in DENIED] == []
    implied = {
        (call["caller"].rpartition("/")[0].rpartition("-")[2], question["action"])
        for call in calls
        for question in call.get("questions", ())
        if question.get("implied")
    }
    assert implied >= {*map(tuple, EXPECTED["implied"])}


def test_every_role_that_acts_is_seen_acting(run: Recorded) -> None:
    assert {*EXPECTED["actors"]} == {role.removeprefix(run.prefix) for role in run.questions}


def test_conditions_are_evaluated_with_keys_that_iam_knows(run: Recorded, roles: Roles) -> None:
    decided = [
        (question.action, roles.decide(role, question).ignored) for role, question in every(run)
    ]
    ours = ("sagemaker:", "ec2:", "kms:", "iam:", "s3:", "cloudwatch:")
    assert [(action, key) for action, keys in decided for key in keys if key.startswith(ours)] == []


@pytest.mark.parametrize("actor", EXPECTED["actors"])
def test_without_any_one_statement_of_a_role_a_recorded_call_is_denied(
    run: Recorded, roles: Roles, actor: str
) -> None:
    role, excused = NAMES.role(actor), UNUSED.get(actor, {})
    needed = [
        sid
        for sid, statement in roles.statements(role)
        if statement["Effect"] == "Allow" and sid not in excused
    ]
    asked = run.questions[role].values()
    assert needed
    assert [
        sid
        for sid in needed
        if all(roles.decide(role, question, missing=sid).allowed for question in asked)
    ] == []


def test_the_statements_that_no_call_used_are_those_with_a_written_reason(
    roles: Roles, run: Recorded, used: set[tuple[str, str]]
) -> None:
    allowing = {
        (role, sid)
        for role, documents in run.identity.items()
        if role != NAMES.role(LATE)
        for document in documents.values()
        for sid, statement in named(document).items()
        if statement["Effect"] == "Allow"
    }
    assert "training" not in UNUSED
    assert {
        (f"{run.prefix}{actor}", sid) for actor, reasons in UNUSED.items() for sid in reasons
    } == allowing - used
