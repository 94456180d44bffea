"""Channels: what the jobs get of those that a workload names; each mistake is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.settings.loading.loader import load_environment
from shoal.settings.loading.workload import load_workload
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from tests.letters import ENVIRONMENT, add_letters, write_environment
from tests.repository import CHECKOUT, copy_folder

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


def test_the_jobs_get_every_channel_that_is_not_optional(tmp_path: Path) -> None:
    found = environment(tmp_path)
    assert list(found.data.channels) == ["pages", "holdout"]
    assert found.data.channels["pages"].content_type == "text/plain"
    assert found.evaluation.channel == "holdout"


def test_an_optional_channel_is_got_where_the_environment_names_it(tmp_path: Path) -> None:
    found = environment(tmp_path, channels={"base_model": {}}).data
    assert list(found.channels) == list(found.in_dataset) == ["pages", "holdout", "base_model"]


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
