"""Options of the shipped scripts, read from their source."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.pipelines.checks.script_options import parser_at, problems_of
from shoal.settings.settings import Training
from tests.pipelines.launch.shipped import shipped
from tests.repository import ROOT
from tests.tables import rows

SCRIPTS = sorted(
    path.relative_to(ROOT) for path in (ROOT / "training_code" / "mnist").glob("*/train*.py")
)

REFUSED = rows(__file__, "script_options.yaml", "refused")


def mistakes(hyperparameters: dict[str, str | int | float | bool]) -> list[str]:
    training = shipped(hyperparameters=hyperparameters)
    return [problem.line("") for problem in problems_of(training, training.entry_point, ROOT)]


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_every_shipped_script_has_options_that_are_read(script: Path) -> None:
    parser = parser_at(str(script.parent), script.name, ROOT)
    names = {name for option in parser.options for name in option.names}
    assert {"--epochs", "--batch-size", "--learning-rate", "--seed"} <= names
    assert parser.knows_all
    assert [option.names for option in parser.options if option.unread - {"required"}] == []


@pytest.mark.parametrize(("name", "value", "message"), REFUSED)
def test_what_the_script_would_refuse_is_a_problem(
    name: str, value: str | int | float, message: str
) -> None:
    (line,) = mistakes({name: value})
    assert message in line


def test_what_the_script_takes_is_none() -> None:
    assert (
        mistakes(
            {
                "epochs": 1.5,
                "label-smoothing": 0,
                "seed": -1,
                "precision": "bf16",
                "batch-size": "64",
                "learning-rate": 1e-3,
            }
        )
        == []
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("depth", 0, "0 is not a positive number"),
        ("checkpointing", "yes", "yes is neither true nor false"),
        ("checkpoints", 3, "is not an option of train.py, which has: depth, "),
        ("compile", True, ""),
    ],
)
def test_options_are_read_from_loops_and_from_calls_by_another_name(
    name: str, value: str | int, message: str
) -> None:
    folder = "training_code/language/pytorch"
    training = Training(source_dir=folder, hyperparameters={name: value})
    mistakes = [problem.message for problem in problems_of(training, "train.py", ROOT)]
    assert [message in mistake for mistake in mistakes] == ([True] if message else [])


def messages_of(root: Path, script: str, **hyperparameters: str | int | float | bool) -> list[str]:
    """Return the problems of a workload's script that adds these options."""
    (root / "train.py").write_text(script, encoding="utf-8")
    training = Training(source_dir=".", hyperparameters=hyperparameters)
    return [problem.message for problem in problems_of(training, "train.py", root)]


@pytest.mark.parametrize("name", ["e", "epochs", "rounds"])
def test_an_option_is_known_by_each_of_its_names(tmp_path: Path, name: str) -> None:
    script = 'parser.add_argument("-e", "--epochs", "--rounds", type=int)\n'
    assert messages_of(tmp_path, script, **{name: "two"}) == [
        "is refused by the script: invalid int value: 'two'"
    ]


def test_a_script_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit")
    training = Training(source_dir="mine", hyperparameters={"anything": 1})
    assert list(problems_of(training, "train.py", tmp_path)) == []
