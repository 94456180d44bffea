"""A workload's file in which one value is something else: accepted, or refused line by line."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.settings.loading.workload import load_workload
from shoal.settings.parsing.errors import ConfigError

FILE = "training_code/prices/workload.yaml"
VALID: dict[str, Any] = {
    "name": "prices",
    "frameworks": {"pytorch": {"entry_point": "train.py"}},
    "channels": {
        "rows": {"description": "a table", "content_type": "text/csv"},
        "base_model": {"optional": True},
    },
    "prepare": "prepare.py",
    "plan": "plan.py",
    "content_types": ["text/csv"],
    "evaluation": {
        "entry_point": "measure.py",
        "channel": "rows",
        "instance_type": "ml.m5.large",
        "image_uri": "mine/own:1",
    },
    "metrics": {"train:loss": {"regex": "loss=(.)", "unit": "nats"}},
    "gates": [{"metric": "rmse", "at_most": 60}],
    "smoke_test": {
        "must_pass": 1,
        "every_answer": {"length(predictions)": 1},
        "show": {"price": "predictions[0]"},
        "requests": [
            {
                "body": "row.json",
                "content_type": "application/json",
                "accept": "application/json",
                "expect": {"predictions[0]": {"near": 1, "within": 2}, "b": 3},
            }
        ],
    },
}
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    float("nan"),
    "",
    "../x",
    "\u202e",
    "a" * 600,
    [],
    {},
    [[None]],
    "`",
)
LONGEST_LINE = 700


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where each value stands, at any depth."""
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, inner in pairs:
        yield (*place, key)
        yield from places(inner, (*place, key))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "training_code" / "prices"
    (folder / "pytorch").mkdir(parents=True)
    (folder / "row.json").write_text("[1]")
    (folder / "prepare.py").touch()
    (folder / "plan.py").touch()
    (folder / "pytorch" / "measure.py").touch()
    return tmp_path


def lines_of(root: Path, content: bytes) -> tuple[str, ...]:
    (root / FILE).write_bytes(content)
    try:
        load_workload("prices", root)
    except ConfigError as error:
        return error.lines
    return ()


@pytest.mark.parametrize("place", list(places(VALID)), ids=lambda place: ".".join(map(str, place)))
def test_another_value_is_never_a_traceback(root: Path, place: tuple[Any, ...]) -> None:
    for value in VALUES:
        document = copy.deepcopy(VALID)
        section = document
        for key in place[:-1]:
            section = section[key]
        section[place[-1]] = value
        for line in lines_of(root, yaml.safe_dump(document).encode()):
            assert line.startswith(FILE)
            assert line.isprintable()
            assert len(line) <= LONGEST_LINE


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"#" * 70_000, "has more than the 65536 bytes"),
        (b"a: &a [x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n" * 1, "there is no such key"),
        (b"a: " + b"[" * 5000, "at most 20 levels"),
        (b"!!python/object/apply:os.system ['true']", "is a mapping of keys to values"),
    ],
)
def test_what_is_no_such_file_is_told(root: Path, content: bytes, line: str) -> None:
    assert any(line in each for each in lines_of(root, content))
