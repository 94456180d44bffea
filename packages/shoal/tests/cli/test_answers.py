"""Each verb answers a program with one document of a declared form, also where it fails."""

from __future__ import annotations

import json

import jsonschema
import pytest

from shoal.cli.answers import verbs
from shoal.cli.main import main, shoal
from tests.cli.documents import SCHEMAS, document_in
from tests.cli.trained import Checkout

VERBS = {name: command for name, command in verbs(shoal) if name != "mcp"}  # a protocol's stdout
ANSWERS = {
    "approve dev --local": 0,
    "check": 2,
    "local status": 0,
    "new taxis": 0,
    "release status dev staging --local": 0,
    "report dev latest --local": 0,
    "runs dev --local": 0,
    "schedule list dev --local": 0,
    "schema schedule list": 0,
    "status dev --local": 0,
    "status dev latest --local": 0,
}
"""Verbs that take no time, and their exit codes; the tests of others read their documents."""


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_json_and_declares_its_form(verb: str) -> None:
    """Who adds a verb puts `@answers(NAME=TYPE, ...)` of shoal.cli.answers above its function, and
    prints with `tell`.
    """
    assert "--json" in {word for each in VERBS[verb].params for word in each.opts}
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[verb])


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_that_fails_prints_the_document_of_an_error(
    verb: str, released: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--root", str(released.root), *verb.split("-"), "--json", "--", *"abcde"]
    assert main(words) == 2
    output = capsys.readouterr()
    document = json.loads(output.out)
    jsonschema.validate(document, SCHEMAS["error"])
    assert document["error"]["exit_code"] == 2
    assert document["error"]["message"].splitlines()[-1] in output.err


@pytest.mark.parametrize("words", ANSWERS)
@pytest.mark.usefixtures("good")
def test_an_answer_has_its_form(
    words: str, released: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["--root", str(released.root), *words.split(), "--json"]) == ANSWERS[words]
    output = capsys.readouterr().out
    assert output.startswith("{")
    assert document_in(output)["schema"] != "shoal/error/1"
