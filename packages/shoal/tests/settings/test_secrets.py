"""Secrets stand in files by their names only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.settings.loading.loader import load
from shoal.settings.sections.network import InterfaceEndpoint
from shoal.settings.sections.secrets import variables
from shoal.settings.settings import Environment
from tests.settings.environment_file import VALID, lines_with, write

TOKEN = "hf_abcdefghijklmnopqrstuvwxyzABCDEF"


def loaded(folder: Path, **sections: Any) -> Environment:
    return load(write(folder, yaml.safe_dump(VALID | sections)))


@pytest.mark.parametrize(
    ("value", "mistake"),
    [
        (TOKEN, "looks like a secret"),
        ("AKIAIOSFODNN7EXAMPLE", "looks like a secret"),
        ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY9aB3cD", "looks like a secret"),
        ("arn:aws:secretsmanager:us-east-1:111122223333:secret:x-AbCdEf", "is no name of a secret"),
        ("pass word", "is no name of a secret"),
        ("", "is no name of a secret"),
        (12345678, "is no name of a secret"),
        ({"value": TOKEN}, "is no name of a secret"),
        ([TOKEN], "is no name of a secret"),
    ],
)
def test_what_is_no_name_is_refused_and_never_shown(
    tmp_path: Path, value: Any, mistake: str
) -> None:
    (line,) = lines_with(tmp_path, {"training": {"secrets": {"HF_TOKEN": value}}})
    assert "training.secrets.HF_TOKEN: " in line
    assert mistake in line
    assert str(value or "?") not in line
    assert TOKEN not in line


def test_what_is_no_mapping_is_not_shown_either(tmp_path: Path) -> None:
    (line,) = lines_with(tmp_path, {"training": {"secrets": TOKEN}})
    assert "training.secrets: must be a mapping" in line
    assert TOKEN not in line


def test_a_variable_has_a_variables_name(tmp_path: Path) -> None:
    (line,) = lines_with(tmp_path, {"training": {"secrets": {"hf token": "x"}}})
    assert "is no name of a variable" in line


def test_the_container_gets_names() -> None:
    assert variables({"HF_TOKEN": "team/hf"}) == {"SHOAL_SECRET_HF_TOKEN": "team/hf"}


@pytest.mark.parametrize(
    ("network", "endpoints"),
    [
        ({}, ("secretsmanager",)),
        ({"interface_endpoints": ["sts"]}, ("sts", "secretsmanager")),
        ({"interface_endpoints": ["secretsmanager"]}, ("secretsmanager",)),
        ({"nat": True}, ()),
    ],
)
def test_a_vpc_that_reaches_no_secret_otherwise_gets_an_endpoint(
    tmp_path: Path, network: dict[str, Any], endpoints: tuple[str, ...]
) -> None:
    with_secret = loaded(tmp_path, network=network, training={"secrets": {"HF_TOKEN": "hf"}})
    without = loaded(tmp_path, network=network)
    assert with_secret.interface_endpoints == tuple(map(InterfaceEndpoint, endpoints))
    assert without.interface_endpoints == without.network.interface_endpoints
