"""A demo that fails, and one that is interrupted: both clean up."""

from __future__ import annotations

import signal

import pytest

from tests.end_to_end.conftest import Checkout, Finished


@pytest.fixture(scope="module")
def failed(checkout: Checkout) -> Finished:
    """A demo whose training script refuses its hyperparameters: a batch that is larger than the
    dataset.
    """
    return checkout.run(
        "demo", "--output", str(checkout.root / "failed"), "--parameter", "BatchSize=70000"
    )


@pytest.fixture(scope="module")
def interrupted(checkout: Checkout) -> Finished:
    """A demo that gets Ctrl-C once training has begun to report."""
    lines = []
    with checkout.running("demo", "--output", str(checkout.root / "interrupted")) as process:
        for line in process.stdout or ():
            lines.append(line)
            if "images/s" in line:
                process.send_signal(signal.SIGINT)
                break
        rest, _ = process.communicate(timeout=120)
    return Finished(process.returncode, "".join(lines) + rest)


@pytest.mark.nightly
def test_a_failing_training_script_ends_with_exit_code_1(
    failed: Finished, checkout: Checkout
) -> None:
    assert failed.exit_code == 1, failed.output
    assert checkout.summary("failed")["status"] == "Failed"


@pytest.mark.nightly
def test_the_failure_names_the_step_shows_its_last_lines_and_says_where_the_log_is(
    failed: Finished, checkout: Checkout
) -> None:
    told = failed.output.partition("shoal demo: execute: ")[2]
    log = checkout.root / "failed" / "logs" / "Train.log"
    assert told.startswith("step Train failed")
    assert "global batch size 70000 is larger than the training set" in told
    assert f"whole log: {log}" in told
    assert log.is_file()


@pytest.mark.nightly
def test_a_failed_demo_leaves_nothing(failed: Finished, checkout: Checkout) -> None:
    assert checkout.summary("failed")["left_behind"] == []
    assert checkout.leftovers(failed.output) == []


@pytest.mark.nightly
def test_an_interrupted_demo_ends_with_exit_code_130(
    interrupted: Finished, checkout: Checkout
) -> None:
    assert interrupted.exit_code == 130, interrupted.output
    assert checkout.summary("interrupted")["status"] == "Interrupted"


@pytest.mark.nightly
def test_an_interrupted_demo_leaves_nothing(interrupted: Finished, checkout: Checkout) -> None:
    assert checkout.summary("interrupted")["left_behind"] == []
    assert checkout.leftovers(interrupted.output) == []
