"""YAML is read by the rules of version 1.2, and each mistake in it has its line."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.settings.parsing.yaml_file import parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("NO", "NO"),
        ("true", True),
        ("1e-3", 0.001),
        ("-1.5E+2", -150.0),
        (".5", 0.5),
        ("1:30", "1:30"),
        ("2024-01-31", "2024-01-31"),
        ("0123", 123),
        ("1_000", "1_000"),
        ("~", None),
        ("", None),
        ("'12'", "12"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: Any) -> None:
    read = parse(f"key: {text}").data["key"]
    assert (read, type(read)) == (value, type(value))


def test_every_key_knows_its_line() -> None:
    assert parse("a:\n  b: 1\n  c:\n    - x: 2\n").lines == {
        "a": 1,
        "a.b": 2,
        "a.c": 3,
        "a.c[0].x": 4,
    }


def test_a_key_given_twice_names_both_lines() -> None:
    (problem,) = parse("a:\n  b: 1\n  b: 2\n").problems
    assert (problem.key, problem.message) == ("a.b", "the key is given twice, on lines 2 and 3")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: c: d\n", 2, "mapping values are not allowed here (column 5)"),
        ("a: [1\n", 2, "expected ',' or ']', but got '<stream end>'"),
        ("a: 1\n\tb: 2\n", 2, "found character '\\t' that cannot start any token"),
        ("a: &x [*x]\n", 1, "an alias may not contain itself"),
        ("[1]: 2\n", 1, "a key must be a word"),
        ("a: !!python/name:os.system\n", 1, "cannot be read as python/name:os.system"),
        ("a: !!binary eA==\n", 1, "cannot be read as binary"),
        ("a: !!int many\n", 1, "cannot be read as int"),
        ("a: 1\n---\nb: 2\n", 2, "but found another document"),
        ("a: 1\nb: \x00\n", 2, "contains a character that YAML does not allow, U+0000"),
        ('a: "\\ud800"\n', 1, "half of a surrogate pair is no character"),
        ('"\\ud800": 1\n', 1, "a key must be a word"),
        ("a: *nowhere\n", 1, "found undefined alias 'nowhere'"),
    ],
)
def test_a_syntax_error_is_one_problem_at_its_line(text: str, line: int, message: str) -> None:
    document = parse(text)
    (problem,) = document.problems
    assert message in problem.message
    assert document.lines[""] == line


def test_an_alias_repeats_what_it_points_to() -> None:
    assert parse("a: &zones [x, y]\nb: *zones\n").data == {"a": ["x", "y"], "b": ["x", "y"]}
