"""Everything that argparse lets a script say, and what argparse itself says to it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal.pipelines.checks.script_options import problems_of, risks_of
from shoal.settings.hyperparameters import as_argument, as_sent
from shoal.settings.settings import Training
from tests.tables import table

CASES: list[dict[str, Any]] = table(__file__, "argparse.yaml")
START = '''
import argparse, ast, json, os, sys
MODELS = {"small": 1, "medium": 2}
def exact(text):
    return text == "true"
def str2bool(v):
    if isinstance(v, bool):
        return v
    if v.lower() in ("yes", "true", "t", "y", "1"):
        return True
    elif v.lower() in ("no", "false", "f", "n", "0"):
        return False
    else:
        raise argparse.ArgumentTypeError("Boolean value expected.")
def share(text: str) -> float:
    """Return a share."""
    value: float = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share")
    return value
def unread(text):
    for each in text:
        os.getcwd()
def words(): return ["--m"]
def more(): return {"type": int}
parser = argparse.ArgumentParser()
'''
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
    return [problem.message for problem in problems_of(training, "train.py", root)]


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
    ("more", "hyperparameters", "refused"),
    [
        ("", {"depth": 1}, True),
        ("parser.parse_known_args()", {"depth": 1}, False),
        ("parser = other.add_options(parser)", {"depth": 1}, False),
        ("other.start(parser)", {"depth": 1}, False),
        ("parser = HfArgumentParser((A, B))", {"depth": 1}, False),
        ("class Mine(argparse.ArgumentParser): pass", {"depth": 1}, False),
        ("parser.parse_known_args()", {"num": "x"}, True),
        ("parser.parse_known_args()", {"flag": True}, False),
        ("parser.parse_known_args()", {"flag": False}, True),
        ("if os.environ: parser.add_argument('--more', required=True)", {}, False),
        ("def own(): argparse.ArgumentParser().add_argument('--more', required=True)", {}, False),
    ],
)
def test_what_is_not_known_is_not_refused(
    tmp_path: Path, more: str, hyperparameters: dict[str, Any], refused: bool
) -> None:
    added = "parser.add_argument('--num', type=int)\nparser.add_argument('--flag', action='count')"
    assert bool(judged(tmp_path, f"{START}{added}\n{more}\n", hyperparameters)) is refused


@pytest.mark.parametrize(
    ("add", "value", "risk"),
    [
        ('"--amp", action=Mine', True, "(action) is not read"),
        ('"--amp", action=Mine', "text", "(action) is not read"),
        ('"--amp", type=unread', True, "(type) is not read"),
        ('"--amp", type=elsewhere.to_bool', False, "(type) is not read"),
        ('"--amp", type=elsewhere.to_size', "3", ""),
        ('"--amp", type=str2bool', True, ""),
        ('"--amp", type=lambda text: text == "True"', False, ""),
        ('"--amp", type=lambda text: bool(int(text))', True, "(type) is not read"),
        ('"--amp", type=share', True, "(type) is not read"),
        ('"--amp", type=share', "2", ""),
    ],
)
def test_what_cannot_be_read_is_a_risk_where_it_matters(
    tmp_path: Path, add: str, value: str | bool, risk: str
) -> None:
    script = f"{START}parser.add_argument({add})\n"
    assert judged(tmp_path, script, {"amp": value}) == []
    training = Training(source_dir=".", hyperparameters={"amp": value})
    risks = list(risks_of(training, "train.py", tmp_path))
    assert [risk in each for each in risks] == ([True] if risk else [])


@pytest.mark.parametrize(
    "kind",
    [
        "lambda text: open('written', 'w')",
        "open('written', 'w').write",
        "_share",
        "int, choices=range(1000000000000000)",
        "float, choices=range(1000000000000000)",
        "int, nargs=1000000000",
    ],
)
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
