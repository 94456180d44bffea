"""A release in an environment file: its limits, and that writing it changes nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from config.errors import ConfigError
from config.loader import load
from config.release import Release
from config.release_text import release_in, with_release
from config.yaml_lines import parse
from tests.config.environment_file import VALID, lines_with, write
from tests.config.releases import CONTENT, RELEASE

NEXT = Release(
    **CONTENT
    | {"model_package_arn": CONTENT["model_package_arn"][:-1] + "4", "model_package_version": 4}
)
PLAIN = 'name: test # ours\naccount: "111122223333"\n\n# Where it runs.\nregion: us-east-1\n'


def test_what_was_written_is_what_is_read(tmp_path: Path) -> None:
    text = with_release(f"workload: mnist\n{PLAIN}", RELEASE, "test.yaml")
    assert load(write(tmp_path, text)).release == RELEASE


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("model_package_arn", "shoal-mnist-dev/3", "must be the ARN of a model package version"),
        ("model_package_version", 4, "is not the version that model_package_arn names, 3"),
        ("image_digest", "latest", "must be the digest of an image"),
        ("model_data_sha256", "2" * 63, "must be 64 hexadecimal digits in quotes"),
        ("code_commit", "main", "must be the whole id of a commit"),
        ("approved_at", "yesterday", "must be an instant in UTC"),
        ("model_data_url", "s3://bucket/latest", "must be an archive in S3"),
    ],
)
def test_what_does_not_pin_is_refused(tmp_path: Path, key: str, value: Any, says: str) -> None:
    (line,) = lines_with(tmp_path, {"release": CONTENT | {key: value}})
    assert line.startswith(f"environments/test.yaml:{_line_of(key)}: release.{key} = ")
    assert says in line


def _line_of(key: str) -> int:
    lines = yaml.safe_dump(VALID | {"release": CONTENT}, sort_keys=False).splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(f"  {key}:"))


def test_a_release_that_lacks_something_is_refused(tmp_path: Path) -> None:
    (line,) = lines_with(
        tmp_path,
        {"release": {key: value for key, value in CONTENT.items() if key != "image_digest"}},
    )
    assert "release.image_digest: the key is missing" in line


@pytest.mark.parametrize(
    "changes",
    [
        {"copied_from": CONTENT["model_package_arn"], "environment": None},
        {"replaces": [], "environment": None},
        {"environment": None},
    ],
)
def test_a_release_of_an_older_shoal_is_one_line_that_says_what_to_run(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    old = {key: value for key, value in (CONTENT | changes).items() if value is not None}
    (line,) = lines_with(tmp_path, {"release": old})
    assert "release: was pinned by a Shoal that served archives in place" in line
    assert "take the section out and run `shoal promote`" in line


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"shared_versions": "every"}, "each environment that serves brings its own copy"),
        (
            {
                "delivery": {
                    "repository": "team/models",
                    "connection_arn": "arn:aws:codeconnections",
                }
            },
            "CodePipeline's way is gone; remove it: GitHub's workflows deploy",
        ),
    ],
)
def test_a_key_that_is_gone_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    (line,) = lines_with(tmp_path, changes)
    assert "there is no such key any more" in line
    assert says in line


def test_an_environment_does_not_take_releases_from_itself(tmp_path: Path) -> None:
    (line,) = lines_with(tmp_path, {"promoted_from": "test"})
    assert "cannot take releases from itself" in line


@pytest.mark.parametrize(
    "text", [PLAIN, PLAIN.rstrip("\n"), PLAIN.replace("\n", "\r\n"), PLAIN + "\n\n# The end.\n"]
)
def test_appending_keeps_every_character_before_it(text: str) -> None:
    assert with_release(text, RELEASE, "test.yaml").startswith(text.rstrip("\r\n"))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_end_as_they_did(end: str) -> None:
    written = with_release(PLAIN.replace("\n", end), RELEASE, "test.yaml")
    assert written.count("\n") == written.count(end)


def test_a_second_release_takes_the_place_of_the_first_and_leaves_what_stands_around_it() -> None:
    after = "\n# What it costs.\nprotect: false # for now\n"
    first = with_release(PLAIN, RELEASE, "test.yaml") + after
    second = with_release(first, NEXT, "test.yaml")
    assert second == with_release(PLAIN, NEXT, "test.yaml") + after


def test_a_release_at_the_beginning_is_replaced_there() -> None:
    text = f"release: {{model_package_version: 1}}\n{PLAIN}"
    assert with_release(text, RELEASE, "test.yaml").endswith(
        f'approved_at: "2026-11-20T09:30:00Z"\n{PLAIN}'
    )


def test_writing_twice_is_writing_once() -> None:
    once = with_release(PLAIN, RELEASE, "test.yaml")
    assert with_release(once, RELEASE, "test.yaml") == once


def test_odd_texts_survive(tmp_path: Path) -> None:
    odd = Release(
        **CONTENT
        | {"approved_by": 'Åsa "the # judge": \\ yes', "metrics": {"f1: macro": 1e-7, "n": 3}}
    )
    release = parse(with_release(PLAIN, odd, "test.yaml")).data["release"]
    assert (release["approved_by"], release["metrics"]) == (odd.approved_by, odd.metrics)


@pytest.mark.parametrize("text", ['{name: test, account: "111122223333"}\n', PLAIN + "...\n"])
def test_a_style_into_which_it_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"test.yaml: release: this file is written in a style"):
        with_release(text, RELEASE, "test.yaml")


TWO = """name: test # ours
workloads:
  mnist: {}
  houses:  # in California
    training:
      strategy: torchrun   # as ever
    # what it costs
    schedules: []

  # The third.
  kites:

# Where it runs.
region: us-east-1
"""
EMPTY_BASE = "name: test\nextends: base.yaml"


def _with_its_release(text: str, workload: str) -> str:
    return with_release(text, RELEASE, "test.yaml", workload)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("workload", ["mnist", "houses", "kites", "boats"])
def test_a_workloads_release_stands_in_its_section_and_the_rest_is_as_it_was(
    workload: str, end: str
) -> None:
    text = TWO.replace("\n", end)
    written = _with_its_release(text, workload)
    sections = parse(written).data["workloads"]
    assert sections[workload]["release"] == RELEASE.model_dump(mode="json")
    kept = [line for line in text.split(end) if line != "  mnist: {}"]
    lines = iter(written.split(end))
    assert [line for line in kept if line not in lines] == []
    assert written.count("\n") == written.count(end)
    assert _with_its_release(written, workload) == written


def test_the_next_release_of_a_workload_takes_the_place_of_the_last() -> None:
    first = _with_its_release(_with_its_release(TWO, "houses"), "kites")
    second = with_release(first, NEXT, "test.yaml", "houses")
    assert second == with_release(_with_its_release(TWO, "kites"), NEXT, "test.yaml", "houses")
    assert (release_in(second, "houses"), release_in(second, "kites")) == tuple(
        each.model_dump(mode="json") for each in (NEXT, RELEASE)
    )


def test_a_release_is_written_where_another_file_has_the_workload() -> None:
    written = _with_its_release(EMPTY_BASE, "houses")
    assert written.startswith(f"{EMPTY_BASE}\n\nworkloads:\n  houses:\n    # Written by")
    assert release_in(written, "houses") == RELEASE.model_dump(mode="json")
    assert release_in(EMPTY_BASE, "houses") is None


@pytest.mark.parametrize(
    "workloads",
    ["{houses: {}}", "\n  houses: {schedules: []}", "\n  a: &a\n    data: {}\n  houses: *a"],
)
def test_a_section_that_is_no_lines_of_its_own_is_refused(workloads: str) -> None:
    message = r"test.yaml: workloads.houses.release: this file is written in a style"
    with pytest.raises(ConfigError, match=message):
        _with_its_release(f"name: test\nworkloads: {workloads}\n", "houses")
