"""What jobs are given: channels of data, and secrets, of which files have only the names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.settings.loading.loader import load, load_environment
from shoal.settings.loading.workload import load_workload
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.sections.network import InterfaceEndpoint
from shoal.settings.sections.secrets import variables
from shoal.settings.settings import Environment
from tests.letters import ENVIRONMENT, add_letters, write_environment
from tests.repository import CHECKOUT, copy_folder
from tests.settings.environment_file import VALID, lines_with, write

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


@pytest.mark.parametrize(
    ("channels", "line"),
    [
        (
            {"weights": {}},
            f"data.channels.weights: {FILE} has no such channel; it has: pages, holdout,"
            " base_model; name one of them, or add it there",
        ),
        (
            {"pages": {"uri": "s3://other/datasets/a/"}},
            f"must lie below {DATA} or {SEALED}: the jobs may read nothing else; copy it there, or"
            " name the bucket's owner: data.channels.pages.account",
        ),
        ({"holdout": {"uri": f"{SEALED}a/"}}, f"must lie below {DATA}: the jobs may read nothing"),
        ({"pages": {"uri": "pages/"}}, "must be a folder or an object in S3"),
        ({"pages": {"url": "s3://a/b"}}, "did you mean `uri`?"),
        ({"pages": []}, "data.channels.pages = []: must be a mapping"),
        (["pages"], "data.channels = [pages]: must be a mapping of names to values"),
    ],
)
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


@pytest.mark.parametrize(
    ("channel", "line"),
    [
        ({"account": OWNER}, "pages.uri: is needed beside account or kms_key_arn"),
        ({"uri": LAKE["uri"], "kms_key_arn": KEY}, "account: is needed beside kms_key_arn"),
        (LAKE | {"uri": f"{DATA}pages/"}, "uri is in one; leave account and kms_key_arn out"),
        (LAKE | {"uri": "s3://lake/pages"}, "must end with a slash: SageMaker takes every key"),
        (LAKE | {"kms_key_arn": KEY.replace("east-1", "west-2")}, "is of us-west-2: jobs read"),
        (LAKE | {"kms_key_arn": "alias/lake"}, "must be the ARN of a KMS key, no alias"),
        (LAKE | {"account": "lake"}, "must be twelve digits"),
        ({"uri": "s3://lake--use1-az4--x-s3/pages/"}, "(S3 Express One Zone)"),
        ({"uri": "s3://lake-0a0a-s3alias/pages/"}, "an access point is not read: SageMaker"),
        ({"uri": f"arn:aws:s3:us-east-1:{OWNER}:accesspoint/lake"}, "name the bucket behind it"),
        (LAKE | {"access_point": "lake"}, "an access point is not read"),
        (LAKE | {"requester_pays": True}, "have no field for x-amz-request-payer"),
        (LAKE | {"catalog": {"database": "d", "table": "t"}}, "aws glue get-table --database-name"),
        (LAKE | {"lake_formation": True}, "Lake Formation lends credentials to query engines"),
    ],
)
def test_what_is_no_channel_of_another_bucket_is_one_line(
    tmp_path: Path, channel: Any, line: str
) -> None:
    assert line in refused(tmp_path, channels={"pages": channel})


def test_a_bucket_has_one_owner(tmp_path: Path) -> None:
    other = {"uri": "s3://lake/holdout/", "account": "555566667777"}
    told = refused(tmp_path, channels={"pages": LAKE, "holdout": other})
    assert f"is not {OWNER}, whom another channel names for that bucket; name the same" in told


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"channels": {}}, "channels = {}: must have at least 1 entries"),
        ({"channels": {"Pages": {}, "holdout": {}}}, "single underscores between"),
        ({"channels": {"holdout": {}, "a_1": {}, "a1": {}}}, "parameter A1DataUri, as a1 does"),
        ({"channels": {f"c{n}": {} for n in range(20)} | {"holdout": {}}}, "has 21 channels"),
        ({"channels": {"holdout": {"uri": "s3://a/b"}}}, "channels.holdout.uri: there is no such"),
        (
            {"channels": {"pages": {}}},
            'evaluation.channel = "holdout": there is no such channel; there are: pages',
        ),
        (
            {"channels": {"holdout": {"optional": True}}},
            "channels.holdout.optional = true: the evaluation reads it",
        ),
        (
            {"channels": {"model": {}}, "evaluation": {"channel": "model"}},
            'evaluation.channel = "model": is the name of another input of the evaluation',
        ),
        (
            {"channels": {"pages": {}}, "evaluation": {}},
            'evaluation.channel = "test": there is no such channel; there are: pages; name one',
        ),
    ],
)
def test_a_wrong_map_is_one_line(tmp_path: Path, changes: dict[str, Any], line: str) -> None:
    told = wrong(tmp_path, **changes)
    assert told.startswith(FILE)
    assert line in told


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
