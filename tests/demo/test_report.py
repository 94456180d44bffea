"""What the demo writes and prints."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from shoal.demo.pipeline.report import (
    Facts,
    clear,
    message_of,
    print_result,
    summary_of_file,
    write_pictures,
    write_summary,
)
from shoal.demo.pipeline.resources import made_by_steps
from shoal.verbs.errors import ExecutionError
from shoal.verbs.evaluation import Evaluation
from shoal.verbs.flow import Failure, Outcome
from shoal.verbs.inventory import Resource
from shoal.verbs.report import EndpointAnswer
from tests.verbs.test_report import METRICS, SMOKE, TRAIN, execution

KNOWN = EndpointAnswer("7.json", True, {"digit": 7, "probability": 0.99})
EVALUATION = Evaluation({"accuracy": 0.9912, "images": 1234}, "4f" * 32, "5e" * 32, "")
GOOD = Outcome({"synth": 5.0, "deploy": 4.0, "execute": 60.0, "total": 90.0}, ())
BAD = Outcome(
    {},
    (Failure("execute", ExecutionError("step Train failed", "Train", ["oops"], "logs/Train.log")),),
)


@pytest.fixture
def facts() -> Facts:
    evaluation, answers = EVALUATION, (KNOWN,)
    return Facts(
        execution(TRAIN, SMOKE),
        list(METRICS),
        evaluation,
        answers,
        None,
        {Resource("endpoint", "e")},
        left_behind=(),
    )


def written(facts: Facts, outcome: Outcome, folder: Path) -> dict[str, object]:
    clear(folder)
    write_summary(facts, outcome, folder)
    return dict(json.loads((folder / "summary.json").read_text()))


def printed(folder: Path) -> str:
    """Return what is printed of a summary, without its columns."""
    stream = io.StringIO()
    print_result(Console(file=stream, width=200), summary_of_file(folder), folder)
    return " ".join(stream.getvalue().split())


def test_the_summary_has_every_key_that_was_promised(facts: Facts, tmp_path: Path) -> None:
    promised = {
        "status",
        "accuracy",
        "steps",
        "endpoint_answers",
        "training",
        "created",
        "left_behind",
        "seconds",
    }
    assert promised <= set(written(facts, GOOD, tmp_path))


def test_who_trained_is_what_the_job_said(facts: Facts, tmp_path: Path) -> None:
    summary = written(facts, GOOD, tmp_path)
    assert [summary[key] for key in ("trained_by", "processes", "ranks", "world_size")] == [
        "2 replicas in one process",
        1,
        None,
        2,
    ]


def test_success_needs_every_phase(facts: Facts, tmp_path: Path) -> None:
    assert written(facts, GOOD, tmp_path)["status"] == "Succeeded"
    assert written(facts, BAD, tmp_path)["status"] == "Failed"


def test_an_interruption_is_told_apart_from_a_failure(facts: Facts, tmp_path: Path) -> None:
    outcome = Outcome({}, (Failure("execute", KeyboardInterrupt()),))
    assert written(facts, outcome, tmp_path)["status"] == "Interrupted"


def test_what_is_not_known_is_null_and_not_empty(tmp_path: Path) -> None:
    summary = written(Facts(), BAD, tmp_path)
    assert (summary["accuracy"], summary["left_behind"], summary["steps"]) == (None, None, [])


def test_a_failure_is_told_with_its_evidence() -> None:
    assert (
        message_of(BAD.failures[0])
        == "step Train failed\nlast lines of its log:\n  oops\nwhole log: logs/Train.log"
    )


def test_clearing_leaves_other_files_of_the_folder_alone(tmp_path: Path) -> None:
    for name in ("summary.json", "mine.txt"):
        (tmp_path / name).write_text("old")
    clear(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "mine.txt"]


def test_a_language_model_is_shown_next_to_gzip_in_words_and_in_a_picture(tmp_path: Path) -> None:
    numbers = {"bits_per_byte": 2.21, "gzip_bits_per_byte": 1.5, "xz_bits_per_byte": 1.2}
    measured = Evaluation({**numbers, "bytes": 238_067}, "4f" * 32, "5e" * 32, "")
    facts = Facts(execution(TRAIN), list(METRICS), measured, left_behind=())
    written(facts, GOOD, tmp_path)
    write_pictures(facts, tmp_path, tmp_path)
    words = "held-out text 2.210 bits per byte of 238,067 bytes (gzip 1.500, xz 1.200)"
    assert words in printed(tmp_path)
    assert (tmp_path / "bits-per-byte.png").is_file()


def test_the_result_shows_steps_accuracy_and_what_is_still_there(
    facts: Facts, tmp_path: Path
) -> None:
    written(facts, GOOD, tmp_path)
    display = printed(tmp_path)
    assert all(
        text in display
        for text in (
            "Train Training Succeeded 9.5",
            "99.12% of 1,234 images",
            "train:rate 300 rows/s (median 200 rows/s), test:rmse 0.9 (median 0.9)",
            "trained by 2 replicas in one process",
            "endpoint 1 0",
            "synth 5.0, deploy 4.0",
        )
    )


def test_what_steps_made_is_named_after_their_arns() -> None:
    assert made_by_steps(execution(TRAIN, SMOKE)) == (Resource("training job", "t"),)
