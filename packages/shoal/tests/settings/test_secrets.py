"""Secrets stand in files by their names only."""

from __future__ import annotations

from collections.abc import Callable
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


SECRETS = (
    TOKEN,
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "https://ada:" + "pa55word" + "@example.com/simple",
    "-----BEGIN RSA PRIVATE KEY-----",
    "sk-proj-abcdefghijklmnopqrstuvwx",
)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "sections",
    [
        lambda value: {"training": {"environment": {"HF_TOKEN": value}}},
        lambda value: {"training": {"environment": {"OTHER": f"a {value}"}}},
        lambda value: {"training": {"hyperparameters": {"note": value}}},
        lambda value: {"training": {"instance_type": value, "instance_count": "two"}},
        lambda value: {"endpoint": {"image_uri": "mine/s:1", "environment": {"T": value}}},
        lambda value: {"observability": {"alert_emails": [value]}},
        lambda value: {"no": {"such": [{"key": value}]}},
        lambda value: {"account": value, "region": "nowhere"},
    ],
)
def test_a_secret_anywhere_is_refused_alone_and_never_shown(
    tmp_path: Path, sections: Callable[[str], dict[str, Any]], secret: str
) -> None:
    (line,) = lines_with(tmp_path, sections(secret))
    assert "looks like a secret" in line
    assert secret not in line
    assert secret[4:20] not in line


@pytest.mark.parametrize(
    ("name", "value", "refused"),
    [
        ("WANDB_API_KEY", "0123456789abcdef0123456789abcdef01234567", True),
        ("AUTH", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY9aB3cD", True),
        ("DB_PASSWORD", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY9aB3cD", True),
        ("DB_PASSWORD", "hunter2", True),
        ("DB_PASSWORD", "", False),
        ("PASSWORD_FILE", "/opt/ml/input/data/login/file", False),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", True),
        ("API_KEY", "0b1c2d3e-4f5a-6b7c-8d9e-0f1a2b3c4d5e", True),
        ("secrets", TOKEN, True),
        ("HOOK", "https://hooks.slack.com/services/T0/B0/x", True),
        ("EXPERIMENT", "sk-learn-something-with-a-very-long-name", False),
        ("DATASET_SHA256", "0123456789abcdef" * 4, False),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("HF_HOME", "/tmp/hf_home", False),
        ("PAD_TOKEN", "<|endoftext|>", False),
        ("COMMIT", "0123456789abcdef0123456789abcdef01234567", False),
        ("MODEL_ID", "meta-llama/Llama-3.1-8B-Instruct", False),
        ("URL", "https://example.com:8443/a@b", False),
        ("API_KEY", "see-the-secret", False),
    ],
)
def test_of_a_variable_its_name_and_its_value_tell(
    tmp_path: Path, name: str, value: str, refused: bool
) -> None:
    lines = lines_with(tmp_path, {"training": {"environment": {name: value}}})
    assert ["looks like a secret" in line for line in lines] == ([True] if refused else [])


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
