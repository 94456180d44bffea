"""Whatever people write, in files and as --parameter: it is used, or is one line per mistake."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from local_kit.values import TEXT, json_safe, spoilt
from shoal.errors import ParameterError
from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import environment_names, load, load_environment
from shoal.settings.loading.workload import load_workload
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from shoal.verbs.parameters import check_declared, check_values, parse_parameters
from tests.repository import ROOT
from tests.tables import table

GOOD = {
    name: yaml.safe_load((ROOT / "environments" / f"{name}.yaml").read_text())
    for name in environment_names(ROOT)
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("environments") / "dev.yaml"


def read(file: Path) -> str:
    """Return how the text is refused; nothing when it is not."""
    try:
        check(load(file, "environments/dev.yaml"), root=ROOT)
    except ConfigError as error:
        return str(error)
    return ""


def require_lines(refused: str) -> None:
    """Assert that each line names the file and a mistake."""
    assert all(
        line.startswith("environments/dev.yaml") and ": " in line for line in refused.splitlines()
    ), refused


@given(document=st.sampled_from(sorted(GOOD)).flatmap(lambda name: spoilt(GOOD[name])))
def test_a_spoilt_environment_is_refused_line_by_line_or_used(file: Path, document: Any) -> None:
    file.write_text(yaml.safe_dump(json_safe(document), allow_unicode=True), encoding="utf-8")
    require_lines(read(file))


TEXTS = st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))


@given(content=st.one_of(st.binary(max_size=200), TEXTS))
def test_what_is_no_environment_at_all_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    refused = read(file)
    assert refused
    require_lines(refused)


SCRIBBLES = [b"", b"\t", b"*a", b"&a", b"{", b"\xff", b"\x00", b"<<: *x", b": :"]


@given(
    cut=st.integers(0, 4000),
    inserted=st.sampled_from([*SCRIBBLES, b"!!python/object:os.system"]),
)
def test_a_file_that_was_cut_or_scribbled_on_is_refused_or_used(
    file: Path, cut: int, inserted: bytes
) -> None:
    text = (ROOT / "environments" / "dev.yaml").read_bytes()
    file.write_bytes(text[: cut % len(text)] + inserted)
    require_lines(read(file))


KNOWN = "Epochs BatchSize LearningRate InstanceCount InstanceType MinAccuracy CodeUri"
NAMES = st.one_of(TEXT, st.sampled_from(KNOWN.split()))
VALUES = st.one_of(
    TEXT,
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["1_000", "٣", "+5", "0x10", "1e3", "inf", "true"]),
)
ENTRIES = st.one_of(TEXT, st.tuples(NAMES, VALUES).map("=".join))


@pytest.fixture(scope="module")
def environment() -> Environment:
    return load_environment("dev", ROOT)


def refusal(environment: Environment, entries: list[str]) -> str:
    """How they are refused; empty when they are not."""
    try:
        given_parameters = parse_parameters(tuple(entries))
        check_declared(environment, given_parameters, ROOT)
        check_values(environment, given_parameters, ROOT)
    except ParameterError as error:
        return str(error)
    return ""


@given(entries=st.lists(ENTRIES, max_size=4))
def test_a_parameter_is_taken_or_refused_in_one_line(
    environment: Environment, entries: list[str]
) -> None:
    assert len(refusal(environment, entries).splitlines()) <= 1


FILE = "training_code/prices/workload.yaml"
VALID: dict[str, Any] = table(__file__, "workload.yaml")
SCALARS = (None, True, -1, float("nan"), "", "../x", "\u202e", "a" * 600, "`")
INVALID_VALUES: tuple[Any, ...] = (*SCALARS, [], {}, [[None]])
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
    for value in INVALID_VALUES:
        document = copy.deepcopy(VALID)
        section = document
        for key in place[:-1]:
            section = section[key]
        section[place[-1]] = value
        for line in lines_of(root, yaml.safe_dump(document).encode()):
            assert line.startswith(FILE)
            assert line.isprintable()
            assert len(line) <= LONGEST_LINE
