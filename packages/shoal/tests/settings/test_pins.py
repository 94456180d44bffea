"""A pinned release is of the environment that trains: of its registry and of its bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.settings.loading.consumers import pin_problems
from shoal.settings.loading.loader import load_environment
from shoal.settings.sections.release import foreign_code_variable
from tests.settings.environment_file import VALID, copy_workloads, write_settings
from tests.settings.releases import CONTENT

FOLLOWS = {"dev": None, "staging": "dev", "prod": "staging"}
STRANGERS_GROUP = "arn:aws:sagemaker:us-east-1:111122223333:model-package/shoal-mnist-other/3"


def lines(root: Path, name: str, sources: dict[str, str | None], **changes: Any) -> list[str]:
    """Return what is wrong with the pin of `name`, in a repository of these environments and
    their `promoted_from`.
    """
    copy_workloads(root)
    for each, source in sources.items():
        document = VALID | {"name": each} | ({"promoted_from": source} if source else {})
        if each == name:
            document["release"] = CONTENT | changes
        write_settings(root / "environments", document, each)
    return [each.line("") for each in pin_problems(load_environment(name, root), root)]


@pytest.mark.parametrize("name", ["staging", "prod", "dev"])
def test_what_promote_writes_is_right(tmp_path: Path, name: str) -> None:
    assert lines(tmp_path, name, FOLLOWS) == []


@pytest.mark.parametrize(
    "arn",
    [
        CONTENT["model_package_arn"].replace("111122223333", "999988887777"),
        CONTENT["model_package_arn"].replace("us-east-1", "us-west-2"),
        STRANGERS_GROUP,
    ],
    ids=["account", "region", "group"],
)
def test_a_version_of_another_registry_is_refused(tmp_path: Path, arn: str) -> None:
    (line,) = lines(tmp_path, "prod", FOLLOWS, model_package_arn=arn)
    assert line.startswith(f'release.model_package_arn = "{arn[:60]}')
    assert "is no version of dev, which trains what is served here: arn:aws:sagemaker:" in line
    assert line.endswith("take it out of the file, and let `shoal promote` write it")


@pytest.mark.parametrize(
    "changes",
    [
        {"model_data_url": CONTENT["model_data_url"].replace("111122223333", "999988887777")},
        {"model_data_url": CONTENT["model_data_url"].replace("models/", "training/")},
        {"model_data_sha256": "6" * 64},
    ],
    ids=["bucket", "not sealed", "another hash"],
)
def test_an_archive_that_is_not_sealed_by_what_trains_is_refused(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    (line,) = lines(tmp_path, "staging", FOLLOWS, **changes)
    assert line.startswith("release.model_data_url = ")
    assert "is not where dev seals that model_data_sha256: s3://shoal-mnist-dev-artif" in line


def test_an_environment_that_trains_itself_pins_its_own(tmp_path: Path) -> None:
    assert len(lines(tmp_path, "live", {"dev": None, "live": None})) == 2


def test_who_leads_back_to_itself_has_nobody_who_trains(tmp_path: Path) -> None:
    (line,) = lines(tmp_path, "prod", {"staging": "prod", "prod": "staging"})
    assert line.startswith('promoted_from = "staging": leads back to itself')


def test_variables_that_name_other_code_are_refused(tmp_path: Path) -> None:
    """Promoting refuses such a version; a person may have edited the file since."""
    variables = {"SAGEMAKER_SUBMIT_DIRECTORY": "s3://stranger/code.tar.gz"}
    (line,) = lines(tmp_path, "staging", FOLLOWS, environment=variables)
    assert line.startswith("release.environment: SAGEMAKER_SUBMIT_DIRECTORY=s3://stranger/")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, None),
        (
            {
                "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
                "SAGEMAKER_PROGRAM": "inference.py",
            },
            None,
        ),
        (
            {"SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model"},
            "SAGEMAKER_SUBMIT_DIRECTORY=/opt/ml/model",
        ),
        (
            {"SAGEMAKER_SUBMIT_DIRECTORY": "s3://bucket/code.tar.gz"},
            "SAGEMAKER_SUBMIT_DIRECTORY=s3://bucket/code.tar.gz",
        ),
        ({"SAGEMAKER_PROGRAM": "../other.py"}, "SAGEMAKER_PROGRAM=../other.py"),
        ({"PYTHONUNBUFFERED": "1", "BATCH_SIZE": "8"}, None),
        ({"PYTHONPATH": "/opt/ml/model/extra"}, "PYTHONPATH=/opt/ml/model/extra"),
        ({"LD_PRELOAD": "/opt/ml/model/hook.so"}, "LD_PRELOAD=/opt/ml/model/hook.so"),
    ],
)
def test_a_container_that_takes_its_code_from_elsewhere_is_found(
    environment: dict[str, str], message: str | None
) -> None:
    assert foreign_code_variable(environment) == message
