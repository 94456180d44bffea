"""`shoal demo`: once to its end, once with a failing script, once interrupted; what it leaves."""

from __future__ import annotations

import json
import re
import signal

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
LOGS = (
    *("Train", "Evaluate", "SmokeTest", "Teardown"),
    *("cdk-synth", "cdk-deploy", "cdk-destroy", "emulator"),
)


def test_every_step_succeeds_and_progress_is_told(demo: Finished, checkout: Checkout) -> None:
    assert demo.exit_code == 0, demo.output
    steps = checkout.run_json()["steps"]
    expected = [*((name, "Succeeded") for name in STEPS), ("GateFailed", "NotStarted")]
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
    assert [name for name in LOGS if not (folder / "logs" / f"{name}.log").is_file()] == []
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
