"""Every attack of the table has a test that exists."""

from __future__ import annotations

import ast
import re

import pytest

from tests.repository import CHECKOUT

TABLE = (CHECKOUT / "packages/shoal/tests/red_team/README.md").read_text()
TESTS = re.findall(r"`(packages/shoal(?:-local)?/tests/[\w/]+\.py)::(test_\w+)`", TABLE)


def test_each_attack_has_one_test() -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(TESTS) > 0


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_it_exists(file: str, name: str) -> None:
    tree = ast.parse((CHECKOUT / file).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
