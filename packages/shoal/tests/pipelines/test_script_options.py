"""The options of scripts: all that argparse lets a script say, and what a workload gives them."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local_kit.tables import rows, table
from shoal.pipelines.checks.scripts import option_problems, option_risks, script_at
from shoal.settings.hyperparameters import as_argument, as_sent
from shoal.settings.settings import Training
from tests.pipelines.inputs import shipped
from tests.repository import ROOT

CASES: list[dict[str, Any]] = table(__file__, "script_options.yaml")["argparse"]
START: str = table(__file__, "script_options.yaml")["start"]
RUN = """
import argparse, json, sys
def exit(self, status=0, message=None): raise SystemExit
argparse.ArgumentParser.exit = exit
argparse.ArgumentParser._print_message = lambda *_: None
for script, words in json.load(sys.stdin):
    sys.argv[1:] = words
    try:
        exec(script)
        print("taken")
    except SystemExit:
        print("refused")
"""
END = "\nparser.parse_args()\n"


def judged(root: Path, script: str, hyperparameters: dict[str, Any]) -> list[str]:
    """Return the problems of a script with these hyperparameters."""
    (root / "train.py").write_text(script, encoding="utf-8")
    training = Training(source_dir=".", hyperparameters=hyperparameters)
    return [problem.message for problem in option_problems(training, root)]


def words_of(hyperparameters: dict[str, Any]) -> list[str]:
    """Return the command line, as AWS's toolkit makes it."""
    return [
        word
        for name, value in hyperparameters.items()
        for word in (f"--{name}" if len(name) > 1 else f"-{name}", as_argument(as_sent(value)))
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['add']} {case['set']}")
def test_what_argparse_would_refuse_is_refused_and_nothing_else(
    tmp_path: Path, case: dict[str, Any]
) -> None:
    script = f"{START}parser.add_argument({case['add']}){END}"
    messages = judged(tmp_path, script, case["set"])
    assert [case["says"] in each for each in messages] == ([True] if case["says"] else [])


def test_argparse_says_the_same() -> None:
    """Of each case that it can tell: it takes what becomes another value, or no number."""
    cases = [
        case
        for case in CASES
        if "not" not in case and not re.search("becomes|finite number", case["says"])
    ]
    scripts = [
        (f"{START}parser.add_argument({case['add']}){END}", words_of(case["set"])) for case in cases
    ]
    said = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(scripts),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    expected = ["refused" if case["says"] else "taken" for case in cases]
    assert list(zip(scripts, said, strict=True)) == list(zip(scripts, expected, strict=True))


@pytest.mark.parametrize(
    ("more", "hyperparameters", "refused"), rows(__file__, "script_options.yaml", "unknown")
)
def test_what_is_not_known_is_not_refused(
    tmp_path: Path, more: str, hyperparameters: dict[str, Any], refused: bool
) -> None:
    added = "parser.add_argument('--num', type=int)\nparser.add_argument('--flag', action='count')"
    assert bool(judged(tmp_path, f"{START}{added}\n{more}\n", hyperparameters)) is refused


@pytest.mark.parametrize(
    ("add", "value", "risk"), rows(__file__, "script_options.yaml", "unreadable")
)
def test_what_cannot_be_read_is_a_risk_where_it_matters(
    tmp_path: Path, add: str, value: str | bool, risk: str
) -> None:
    script = f"{START}parser.add_argument({add})\n"
    assert judged(tmp_path, script, {"amp": value}) == []
    training = Training(source_dir=".", hyperparameters={"amp": value})
    risks = list(option_risks(training, tmp_path))
    assert [risk in each for each in risks] == ([True] if risk else [])


@pytest.mark.parametrize("kind", table(__file__, "script_options.yaml")["hostile"])
def test_a_hostile_converter_touches_nothing_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    script = (
        "import argparse\n"
        "def _share(text): open('written', 'w')\n"
        f"parser = argparse.ArgumentParser()\nparser.add_argument('--kind', type={kind})"
    )
    assert judged(tmp_path, script, {"kind": "1"}) == []
    assert not (tmp_path / "written").exists()


def test_options_may_come_from_a_module_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "arguments.py").write_text(
        f"{START}parser.add_argument('--num', type=int)"
    )
    script = "from deep.arguments import parser\nparser.parse_args()\n"
    assert judged(tmp_path, script, {"num": "x"}) == [
        "is refused by the script: invalid int value: 'x'"
    ]


SCRIPTS = sorted(
    path.relative_to(ROOT) for path in (ROOT / "training_code" / "mnist").glob("*/train*.py")
)

REFUSED = rows(__file__, "script_options.yaml", "refused")


def mistakes(hyperparameters: dict[str, str | int | float | bool]) -> list[str]:
    training = shipped(hyperparameters=hyperparameters)
    return [problem.line("") for problem in option_problems(training, ROOT)]


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_every_shipped_script_has_options_that_are_read(script: Path) -> None:
    training = Training(source_dir=str(script.parent), entry_point=script.name)
    parser = script_at(training, ROOT)
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
    ("name", "value", "message"), rows(__file__, "script_options.yaml", "language")
)
def test_options_are_read_from_loops_and_from_calls_by_another_name(
    name: str, value: str | int, message: str
) -> None:
    folder = "training_code/language/pytorch"
    training = Training(source_dir=folder, hyperparameters={name: value})
    mistakes = [problem.message for problem in option_problems(training, ROOT)]
    assert [message in mistake for mistake in mistakes] == ([True] if message else [])


@pytest.mark.parametrize("name", ["e", "epochs", "rounds"])
def test_an_option_is_known_by_each_of_its_names(tmp_path: Path, name: str) -> None:
    script = 'parser.add_argument("-e", "--epochs", "--rounds", type=int)\n'
    assert judged(tmp_path, script, {name: "two"}) == [
        "is refused by the script: invalid int value: 'two'"
    ]


def test_a_script_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit")
    training = Training(source_dir="mine", hyperparameters={"anything": 1})
    assert list(option_problems(training, tmp_path)) == []
