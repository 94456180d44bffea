"""Whatever is given as --parameter: it is taken, or it is one error, and nothing was started."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_kit.values import TEXT
from shoal.errors import ParameterError
from shoal.settings.loading.loader import load_environment
from shoal.settings.settings import Environment
from shoal.verbs.parameters import check_declared, check_values, parse_parameters
from tests.repository import ROOT

NAMES = st.one_of(
    TEXT,
    st.sampled_from(
        [
            "Epochs",
            "BatchSize",
            "LearningRate",
            "InstanceCount",
            "InstanceType",
            "MinAccuracy",
            "CodeUri",
        ]
    ),
)
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
