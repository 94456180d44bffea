"""The section `endpoint`, which may also be the word `none`; each mistake is a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.settings.loading.loader import load
from tests.settings.environment_file import lines_with, write
from tests.settings.releases import CONTENT

TEXT = 'name: test\nworkload: mnist\naccount: "111122223333"\nendpoint: '


def test_the_word_none_means_that_there_is_no_endpoint(tmp_path: Path) -> None:
    assert load(write(tmp_path, f"{TEXT}none")).endpoint is None


def test_a_section_is_what_it_was(tmp_path: Path) -> None:
    text = f"{TEXT}{{teardown_step: always, content_types: [text/csv]}}"
    endpoint = load(write(tmp_path, text)).endpoint
    assert endpoint
    assert (endpoint.teardown_step, endpoint.content_types) == ("always", ("text/csv",))


@pytest.mark.parametrize(
    ("endpoint", "line"),
    [
        (None, "endpoint = null: must be a mapping of keys to values; The temporary endpoint; `no"),
        ("nothing", 'endpoint = "nothing": must be a mapping of keys to values'),
        ({"instance_count": "2"}, 'endpoint.instance_count = "2": must be a whole number'),
        ({"instance": "ml.m5.large"}, "endpoint.instance: there is no such key here"),
    ],
)
def test_a_wrong_one_is_one_line(tmp_path: Path, endpoint: Any, line: str) -> None:
    (told,) = lines_with(tmp_path, {"endpoint": endpoint})
    assert line in told


def test_a_variable_of_a_container_may_be_as_long_as_a_models(tmp_path: Path) -> None:
    def lines(length: int) -> list[str]:
        variables = {"image_uri": "mine/server:1", "environment": {"A": "x" * length}}
        return lines_with(tmp_path, {"endpoint": variables})

    assert lines(1024) == []
    (told,) = lines(1025)
    assert "endpoint.environment.A" in told
    assert "has 1025 characters; SageMaker allows 1024" in told


@pytest.mark.parametrize(
    ("changes", "key", "advice"),
    [
        ({"serving": {}}, "serving", "remove serving and release"),
        ({"release": CONTENT}, "release", "remove release"),
        ({"serving": {}, "release": CONTENT}, "serving", "remove serving and release"),
    ],
)
def test_what_only_trains_serves_nothing(
    tmp_path: Path, changes: dict[str, Any], key: str, advice: str
) -> None:
    (told,) = lines_with(tmp_path, {"endpoint": "none", **changes})
    assert f" {key}: its models are trained and registered only: `endpoint` is none" in told
    assert told.endswith(advice)
