"""What jobs are given: channels of data, and secrets, of which files have only the names."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from local_kit.tables import rows, table
from shoal.settings.loading.loader import load_environment
from shoal.settings.loading.workload import load_workload
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.sections.network import InterfaceEndpoint
from shoal.settings.sections.secrets import variables
from shoal.settings.settings import Environment
from tests.repository import CHECKOUT, ENVIRONMENT, add_letters, copy_folder, write_environment
from tests.settings.environment_file import lines_with, loaded

FILE = "training_code/letters/workload.yaml"
BUCKETS = "s3://shoal-letters-lab-{}-111122223333-us-east-1"
DATA, SEALED = (BUCKETS.format("data") + "/datasets/", BUCKETS.format("artifacts") + "/models/")


def environment(root: Path, **data: Any) -> Environment:
    """Return the environment `lab` of the workload `letters`, with keys of its section `data`."""
    add_letters(root)
    write_environment(root, ENVIRONMENT + yaml.safe_dump({"data": data}))
    return load_environment("lab", root)


def refused(root: Path, **data: Any) -> str:
    with pytest.raises(ConfigError) as error:
        environment(root, **data)
    (line,) = error.value.lines
    return line


def wrong(root: Path, **changes: Any) -> str:
    """Return the one line about the workload's file with `changes`."""
    add_letters(root)
    content = yaml.safe_load((root / FILE).read_text()) | changes
    (root / FILE).write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError) as error:
        load_workload("letters", root)
    (line,) = error.value.lines
    return line


@pytest.mark.parametrize("uri", [f"{DATA}other/", f"{SEALED}{'0' * 64}/"])
def test_a_channel_can_lie_elsewhere_in_the_environments_own_buckets(
    tmp_path: Path, uri: str
) -> None:
    found = environment(tmp_path, channels={"base_model": {"uri": uri}}).data
    assert list(found.in_dataset) == ["pages", "holdout"]
    assert found.channels["base_model"].uri == uri


def test_without_a_map_the_channels_are_train_and_test(tmp_path: Path) -> None:
    add_letters(tmp_path)
    text = 'name: lab\naccount: "111122223333"\nworkload: letters\n'
    write_environment(tmp_path, text.replace("letters", "mnist"))
    with pytest.raises(ConfigError, match="there is no such workload"):
        load_environment("lab", tmp_path)
    copy_folder(CHECKOUT / "training_code" / "mnist", tmp_path / "training_code" / "mnist")
    assert list(load_environment("lab", tmp_path).data.channels) == ["train", "test"]


@pytest.mark.parametrize(("channels", "line"), rows(__file__, "workloads.yaml", "not_given"))
def test_what_an_environment_cannot_give_is_one_line(
    tmp_path: Path, channels: Any, line: str
) -> None:
    told = refused(tmp_path, channels=channels)
    assert told.startswith("environments/lab.yaml:")
    assert line in told


OWNER, KEY = "444455556666", "arn:aws:kms:us-east-1:444455556666:key/0a0a0a0a"
LAKE: dict[str, Any] = {"uri": "s3://lake/pages/year=2026/", "account": OWNER}


@pytest.mark.parametrize("channel", [LAKE, LAKE | {"kms_key_arn": KEY}])
def test_a_channel_can_lie_in_another_accounts_bucket(tmp_path: Path, channel: Any) -> None:
    found = environment(tmp_path, channels={"pages": channel})
    assert found.data.channels["pages"].account == OWNER
    assert list(found.data.in_dataset) == ["holdout"]


@pytest.mark.parametrize(("channel", "line"), rows(__file__, "workloads.yaml", "other_buckets"))
def test_what_is_no_channel_of_another_bucket_is_one_line(
    tmp_path: Path, channel: Any, line: str
) -> None:
    assert line in refused(tmp_path, channels={"pages": channel})


def test_a_bucket_has_one_owner(tmp_path: Path) -> None:
    other = {"uri": "s3://lake/holdout/", "account": "555566667777"}
    told = refused(tmp_path, channels={"pages": LAKE, "holdout": other})
    assert f"is not {OWNER}, whom another channel names for that bucket; name the same" in told


@pytest.mark.parametrize(("changes", "line"), rows(__file__, "workloads.yaml", "wrong_channels"))
def test_a_wrong_map_is_one_line(tmp_path: Path, changes: dict[str, Any], line: str) -> None:
    told = wrong(tmp_path, **changes)
    assert told.startswith(FILE)
    assert line in told


TOKEN = "hf_abcdefghijklmnopqrstuvwxyzABCDEF"


@pytest.mark.parametrize(("value", "mistake"), rows(__file__, "workloads.yaml", "no_secret_names"))
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
@pytest.mark.parametrize("sections", table(__file__, "workloads.yaml")["places_of_secrets"])
def test_a_secret_anywhere_is_refused_alone_and_never_shown(
    tmp_path: Path, sections: dict[str, Any], secret: str
) -> None:
    changes = json.loads(json.dumps(sections).replace("SECRET", secret))
    (line,) = lines_with(tmp_path, changes)
    assert "looks like a secret" in line
    assert secret not in line
    assert secret[4:20] not in line


@pytest.mark.parametrize(
    ("name", "value", "refused"), rows(__file__, "workloads.yaml", "variables")
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
    ("network", "endpoints"), rows(__file__, "workloads.yaml", "endpoints_of_secrets")
)
def test_a_vpc_that_reaches_no_secret_otherwise_gets_an_endpoint(
    tmp_path: Path, network: dict[str, Any], endpoints: list[str]
) -> None:
    with_secret = loaded(tmp_path, network=network, training={"secrets": {"HF_TOKEN": "hf"}})
    without = loaded(tmp_path, network=network)
    assert with_secret.interface_endpoints == tuple(map(InterfaceEndpoint, endpoints))
    assert without.interface_endpoints == without.network.interface_endpoints
