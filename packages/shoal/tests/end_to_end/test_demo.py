"""`shoal demo`, once, and what it leaves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Checkout, Finished

STEPS = [
    "Train",
    "Evaluate",
    "Gate",
    "Seal",
    "Register",
    "CreateModel",
    "CreateEndpointConfig",
    "CreateEndpoint",
    "SmokeTest",
    "Teardown",
]


def test_the_demo_succeeds(demo: Finished) -> None:
    assert demo.exit_code == 0, demo.output


def test_every_step_succeeded_in_order_and_took_time(demo: Finished, checkout: Checkout) -> None:
    steps = checkout.run_json()["steps"]
    expected = [*((name, "Succeeded") for name in STEPS), ("GateFailed", "NotStarted")]
    assert [(step["name"], step["status"]) for step in steps] == expected
    assert all(
        step["seconds"] > 0.5
        for step in steps
        if step["name"] in {"Train", "Evaluate", "CreateEndpoint"}
    )


def test_the_model_is_accurate_and_was_trained_on_two_ranks(
    demo: Finished, checkout: Checkout
) -> None:
    run = checkout.run_json()
    assert run["metrics"]["values"]["accuracy"] >= 0.99
    assert " images/s on 2 ranks" in demo.output
    speeds = [each for each in run["curves"] if each["name"] == "train:images_per_second"]
    assert all(value > 100 for _, value, _ in speeds[0]["points"][1:])


def test_the_endpoint_knew_the_digits(demo: Finished, checkout: Checkout) -> None:
    answers = checkout.run_json()["answers"]
    assert [answer["request"] for answer in answers] == [f"{label}.json" for label in range(10)]
    assert sum(answer["passed"] for answer in answers) >= 9


def test_the_model_was_registered_and_waits_for_approval(
    demo: Finished, checkout: Checkout
) -> None:
    assert checkout.run_json()["package"]["approval"] == "PendingManualApproval"


def test_what_was_created_is_named_and_none_of_it_is_left(
    demo: Finished, checkout: Checkout
) -> None:
    summary = checkout.summary()
    kinds = {resource["kind"] for resource in summary["created"]}
    assert {
        "stack",
        "bucket",
        "role",
        "pipeline",
        "function",
        "vpc",
    } <= kinds
    made = {each["kind"]: each["gone"] for each in checkout.run_json()["made"]}
    assert {"Endpoint", "EndpointConfig", "Model", "TrainingJob"} <= {*made}
    assert all(made.values())
    assert summary["left_behind"] == []


def test_it_leaves_no_process_port_or_folder(demo: Finished, checkout: Checkout) -> None:
    assert checkout.leftovers(demo.output) == []


def test_nothing_but_caches_is_written_to_the_users_home(
    demo: Finished, checkout: Checkout
) -> None:
    home = checkout.root / "home"
    written = [path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()]
    assert [path for path in written if not path.startswith((".cache/", ".cdk/cache/"))] == []


@pytest.mark.parametrize(
    "name",
    [
        "Train",
        "Evaluate",
        "SmokeTest",
        "Teardown",
        "cdk-synth",
        "cdk-deploy",
        "cdk-destroy",
        "emulator",
    ],
)
def test_every_log_is_kept(demo: Finished, checkout: Checkout, name: str) -> None:
    log: Path = checkout.root / "demo-out" / "logs" / f"{name}.log"
    assert log.is_file()


def test_the_page_has_what_the_steps_printed(demo: Finished, checkout: Checkout) -> None:
    text = (checkout.root / "demo-out" / "index.html").read_text()
    data = re.search(r'<script type="application/json" id="run">(.*?)</script>', text, re.DOTALL)
    assert data, demo.output
    run = json.loads(data[1])
    assert {"Train", "Evaluate", "SmokeTest", "Teardown"} <= set(run["logs"])
    assert {each["name"] for each in run["curves"]} >= {"train:loss", "test:accuracy"}
    assert run["verdict"]["outcome"] == "Succeeded"


def test_progress_is_told_in_plain_lines(demo: Finished) -> None:
    told = (
        "images/s on 2 ranks",
        "step Train (Training): Succeeded",
        "test:accuracy 0.9",
        "left behind  nothing",
    )
    assert [text for text in told if text not in demo.output] == []


def test_the_times_add_up(demo: Finished, checkout: Checkout) -> None:
    seconds = checkout.summary()["seconds"]
    assert {"synth", "deploy", "execute", "total"} <= set(seconds)
    assert sum(value for name, value in seconds.items() if name != "total") == pytest.approx(
        seconds["total"], abs=2.0
    )
