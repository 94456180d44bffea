"""The documents and pages that verbs print: of a declared form, also where they fail, and named as
a team finds them.
"""

import ast
import json
import re
from collections.abc import Iterator

import jsonschema
import pytest
from click.testing import CliRunner

from local_kit.tables import table
from shoal.cli.answers import verbs
from shoal.cli.main import main, shoal
from tests.cli.trained import SCHEMAS, Checkout, document_in
from tests.repository import CHECKOUT

ANSWERS: dict[str, int] = table(__file__, "cases.yaml")["answers"]
VERBS = {name: command for name, command in verbs(shoal) if name != "mcp"}  # a protocol's stdout


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


SOURCES = [CHECKOUT / "packages/shoal/src/shoal", CHECKOUT / "packages/shoal-local/src/shoal_local"]
PATHS = re.compile(r"(?<![\w/.-])docs/[\w/-]+(?:\.md)?|\b[\w-]+\.md\b")
NAMED = re.compile(r"`shoal docs ([\w/-]+)`")
ALLOWED = {
    "verbs/prove/proof.py": {"docs/verification.md", "report.md"},  # which it writes
    "cli/commands/account.py": {"docs/first-aws-run.md"},  # `shoal prove` is of a checkout
    "cli/commands/repository.py": {"README.md"},  # of the repository that it wrote
}
WRITTEN = ("template/**/*.yaml", "template/**/*.jinja", "template/**/*.md", "template/**/*.py")


def strings() -> Iterator[tuple[str, str]]:
    """Yield the file and the text of each string that may be printed: of docstrings those of
    settings, which are descriptions of keys, and of commands, which are their help.
    """
    for source in SOURCES:
        for file in sorted(source.rglob("*.py")):
            path = file.relative_to(source).as_posix()
            tree = ast.parse(file.read_text(encoding="utf-8"))
            silent = {id(tree.body[0].value)} if isinstance(tree.body[0], ast.Expr) else set()
            if not path.startswith(("settings/", "cli/commands/")):
                silent |= {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and id(node) not in silent:
                    yield path, str(node.value)
        for pattern in WRITTEN:
            for file in sorted(source.glob(pattern)):
                yield file.relative_to(source).as_posix(), file.read_text(encoding="utf-8")


def test_what_is_printed_or_written_names_pages_that_a_team_has() -> None:
    found = [(path, text) for path, text in strings()]
    paths = [
        (path, name)
        for path, text in found
        for name in PATHS.findall(text)
        if name not in ALLOWED.get(path, set())
    ]
    assert paths == []
    names = {name for _, text in found for name in NAMED.findall(text)}
    assert len(names) >= 8
    pages = json.loads(CliRunner().invoke(shoal, ["docs", "--json"]).stdout)["pages"]
    assert names <= {*pages}


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 0, "own-pipeline"),
        (["decisions/schedules"], 0, "# "),
        (["schemas"], 0, '"const": "shoal/docs/1"'),
        (["docs/gitops.md"], 0, "# The life of a release"),
        (["../README"], 2, "there is no page ../README; `shoal docs` lists all"),
    ],
)
def test_a_page_is_printed_by_its_name(arguments: list[str], code: int, text: str) -> None:
    result = CliRunner().invoke(shoal, ["docs", *arguments])
    assert (result.exit_code, text in result.output) == (code, True)
