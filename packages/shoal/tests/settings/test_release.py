"""A pinned release: its limits, and the file that has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.settings.loading.loader import load
from shoal.settings.loading.release_file import pins_in, text_of
from shoal.settings.sections.release import Release
from tests.settings.environment_file import VALID, lines_of, lines_with, write_settings
from tests.settings.releases import CONTENT, RELEASE


def test_what_was_written_is_what_is_read(tmp_path: Path) -> None:
    pinned = VALID | {"release": RELEASE.model_dump(mode="json")}
    assert load(write_settings(tmp_path, pinned)).release == RELEASE


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
    assert line.startswith(f"environments/test.release.yaml:{_line_of(key)}: release.{key} = ")
    assert says in line


def _line_of(key: str) -> int:
    lines = text_of({"mnist": CONTENT}).splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(f"  {key}:"))


def test_a_release_that_lacks_something_is_refused(tmp_path: Path) -> None:
    (line,) = lines_with(
        tmp_path,
        {"release": {key: value for key, value in CONTENT.items() if key != "image_digest"}},
    )
    assert "release.image_digest: the key is missing" in line


def test_odd_texts_survive(tmp_path: Path) -> None:
    odd = Release(
        **CONTENT
        | {
            "approved_by": 'Åsa "the # judge": \\ yes\u2028\x7f\U0001f600',
            "environment": {"A": "1e-3", "B": "null", "C": "\r\n\t"},
            "metrics": {"f1: macro": 1e-7, "n": 3, "yes": 1.0},
        }
    )
    pins = {"mnist": odd.model_dump(mode="json")}
    assert pins_in(text_of(pins)) == pins
    assert load(write_settings(tmp_path, VALID | {"release": pins["mnist"]})).release == odd


def test_the_file_is_the_same_whatever_was_pinned_first() -> None:
    pins = {name: RELEASE.model_dump(mode="json") for name in ("mnist", "prices")}
    assert text_of(pins) == text_of(dict(reversed(pins.items())))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "prices: {}\n",
            "1: prices: environments/test.yaml has no such workload; there are: mnist",
        ),
        ("[]\n", " is a mapping of workloads to what each pins; let `shoal promote` write"),
        ("mnist: {\n", "2: not valid YAML: "),
        ("mnist: []\n", "1: release = []: must be a mapping of keys to values"),
    ],
)
def test_a_file_that_pins_nothing_is_refused(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "test.release.yaml").write_text(text)
    (found,) = lines_with(tmp_path, {})
    assert found.startswith(f"environments/test.release.yaml:{line}")


def test_a_release_in_the_environments_own_file_is_refused(tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path, yaml.safe_dump(VALID | {"release": CONTENT}, sort_keys=False))
    assert line == (
        "environments/test.yaml:5: release: is no key here any more:"
        " environments/test.release.yaml has what is pinned; take it out, commit that, and let"
        " `shoal promote` write that file"
    )
