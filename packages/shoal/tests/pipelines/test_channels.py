"""The pipeline of a workload with channels of its own, an image of its own and no endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load_environment
from shoal.settings.parsing.errors import ConfigError
from tests.letters import BASE_MODEL, ENVIRONMENT, IMAGE, add_letters, write_environment
from tests.pipelines.inputs import steps_by_name
from tests.tables import rows

DATASET = "s3://shoal-letters-lab-data-111122223333-us-east-1/datasets/letters"
SEALED = f"s3://shoal-letters-lab-artifacts-111122223333-us-east-1/models/{'0' * 64}/"


def checked(root: Path, text: str = ENVIRONMENT) -> dict[str, Any]:
    """Return the definition of the environment `lab` with this text, once `shoal check` is past."""
    add_letters(root)
    write_environment(root, text)
    return check(load_environment("lab", root), root).definition


def channels(definition: dict[str, Any]) -> dict[str, dict[str, Any]]:
    training = steps_by_name(definition)["Train"]["Arguments"]
    return {each["ChannelName"]: each for each in training["InputDataConfig"]}


def defaults(definition: dict[str, Any]) -> dict[str, Any]:
    return {each["Name"]: each.get("DefaultValue") for each in definition["Parameters"]}


def test_training_gets_the_channels_of_the_map(tmp_path: Path) -> None:
    definition = checked(tmp_path)
    assert list(channels(definition)) == ["pages", "holdout"]
    assert channels(definition)["pages"] == {
        "ChannelName": "pages",
        "ContentType": "text/plain",
        "InputMode": "File",
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "S3Prefix",
                "S3Uri": {"Get": "Parameters.PagesDataUri"},
                "S3DataDistributionType": "FullyReplicated",
            }
        },
    }
    assert defaults(definition)["PagesDataUri"] == f"{DATASET}/pages/"
    assert "BaseModelDataUri" not in defaults(definition)


def test_an_optional_channel_is_one_more_input_and_parameter(tmp_path: Path) -> None:
    definition = checked(tmp_path, BASE_MODEL)
    assert list(channels(definition)) == ["pages", "holdout", "base_model"]
    assert defaults(definition)["BaseModelDataUri"] == f"{DATASET}/base_model/"


def test_the_evaluation_reads_the_channel_that_it_names(tmp_path: Path) -> None:
    evaluation = steps_by_name(checked(tmp_path))["Evaluate"]["Arguments"]
    (holdout,) = [each for each in evaluation["ProcessingInputs"] if each["InputName"] == "holdout"]
    assert holdout["S3Input"]["S3Uri"] == {"Get": "Parameters.HoldoutDataUri"}
    assert evaluation["AppSpecification"]["ImageUri"] == IMAGE
    arguments = evaluation["AppSpecification"]["ContainerArguments"]
    position = arguments.index("--test-dir")
    assert arguments[position + 1] == holdout["S3Input"]["LocalPath"]


def test_beside_a_file_system_a_channel_with_a_uri_is_copied_from_s3(tmp_path: Path) -> None:
    data = f"data: {{input_mode: FSx, channels: {{base_model: {{uri: {SEALED}}}}}}}\n"
    found = checked(tmp_path, f"{ENVIRONMENT}file_system: {{}}\n{data}")
    assert "FileSystemDataSource" in channels(found)["pages"]["DataSource"]
    assert "S3DataSource" in channels(found)["base_model"]["DataSource"]
    assert defaults(found)["PagesDataPath"] == "/00000000/datasets/letters/pages"
    assert defaults(found)["BaseModelDataUri"] == SEALED


@pytest.mark.parametrize(("change", "line"), rows(__file__, "channels.yaml", "refused"))
def test_what_is_missing_or_wrong_is_one_line(tmp_path: Path, change: str, line: str) -> None:
    small = 'name: lab\nworkload: letters\naccount: "111122223333"\n'
    if "training" not in change:
        small += "training: {strategy: none, instance_type: ml.m5.large}\n"
    with pytest.raises(ConfigError) as error:
        checked(tmp_path, f"{small}{change}\n")
    (told,) = error.value.lines
    assert told.startswith("environments/lab.yaml:")
    assert line in told
