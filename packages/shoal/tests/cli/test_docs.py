"""`shoal docs`, and that whatever is printed or written into a team's repository names pages by it:
there is no folder docs/ there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from shoal.cli.main import shoal
from tests.repository import CHECKOUT

SOURCES = [CHECKOUT / "packages/shoal/src/shoal", CHECKOUT / "packages/shoal-local/src/shoal_local"]
PATHS = re.compile(r"(?<![\w/.-])docs/[\w/-]+(?:\.md)?|\b[\w-]+\.md\b")
NAMED = re.compile(r"`shoal docs ([\w/-]+)`")
ALLOWED = {
    "verbs/prove/proof.py": {"docs/verification.md", "report.md"},  # which it writes
    "cli/commands/platform/prove.py": {"docs/first-aws-run.md"},  # `shoal prove` is of a checkout
    "cli/commands/platform/repository.py": {"README.md"},  # of the repository that it wrote
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
    assert [name for name in names if not (CHECKOUT / "docs" / f"{name}.md").is_file()] == []


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 0, "own-pipeline"),
        (["decisions/schedules"], 0, "# "),
        (["docs/gitops.md"], 0, "# The life of a release"),
        (["../README"], 2, "there is no page ../README; `shoal docs` lists all"),
    ],
)
def test_a_page_is_printed_by_its_name(arguments: list[str], code: int, text: str) -> None:
    result = CliRunner().invoke(shoal, ["docs", *arguments])
    assert (result.exit_code, text in result.output) == (code, True)
