"""The tables are complete, agree with each other, and every fact of smddp has a source."""

from __future__ import annotations

import ast
import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from config.regions import az_id_prefixes
from config.settings import Framework, Strategy
from pipelines import shapes
from pipelines.launch import tables
from tests.pipelines.inputs import ROOT

FULL = re.compile(r"^[\d.]+-(gpu-py\d+-cu\d+|cpu-py\d+)-ubuntu2\d\.04-sagemaker$")


def _minor(version: str) -> list[str]:
    return version.split("-")[0].split(".")[:2]


def test_every_region_of_the_project_has_a_registry() -> None:
    assert [region for region in az_id_prefixes() if tables.registry(region) is None] == []


@pytest.mark.parametrize("framework", list(Framework))
def test_every_smddp_release_has_an_image_and_a_source(framework: Framework) -> None:
    releases = tables.smddp_releases(framework)
    assert set(releases) <= set(tables.image_tags(framework))
    assert all(re.search(r"\[(support|release|dlc)\]", release.source) for release in releases.values())


@pytest.mark.parametrize("framework", list(Framework))
def test_training_tags_name_their_own_version_and_are_full(framework: Framework) -> None:
    tags = [(version, tag) for version, row in tables.image_tags(framework).items() for tag in (row.training_gpu, row.training_cpu)]
    assert [tag for version, tag in tags if not FULL.match(tag) or not tag.startswith(f"{version}-")] == []


@pytest.mark.parametrize("framework", list(Framework))
def test_the_image_that_answers_has_the_same_minor_version(framework: Framework) -> None:
    rows = tables.image_tags(framework).items()
    assert [row for version, row in rows if not FULL.match(row.inference_cpu) or _minor(row.inference_cpu) != _minor(version)] == []


@pytest.mark.parametrize("framework", list(Framework))
def test_every_image_has_a_python_that_the_training_code_runs_on(framework: Framework) -> None:
    _, least = tables.ordered(tables.least_python(framework))
    found = [re.search(r"-py3(\d+)-", tag) for row in tables.image_tags(framework).values() for tag in (row.training_gpu, row.training_cpu)]
    assert all(match and int(match[1]) >= least for match in found)


@pytest.mark.parametrize("framework", list(Framework))
def test_the_training_code_has_no_syntax_that_the_oldest_python_lacks(framework: Framework) -> None:
    major, minor = tables.ordered(tables.least_python(framework))
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "training_code" / framework).glob("*.py")]
    assert all(ast.parse(source, feature_version=(major, minor)) for source in sources)
    assert sources


@pytest.mark.parametrize("framework", list(Framework))
def test_every_image_names_its_sources(framework: Framework) -> None:
    assert [row for row in tables.image_tags(framework).values() if not re.match(r"\[(images|support|data)\]", row.source)] == []


def test_every_strategy_has_a_row_with_a_source() -> None:
    assert [strategy for strategy in Strategy if "[" not in tables.strategy(strategy).source] == []


def test_versions_compare_as_numbers() -> None:
    assert tables.ordered("2.10.1") > tables.ordered("2.9.2")


def test_instance_types_of_smddp_are_ones_that_sagemaker_trains_on() -> None:
    assert set(tables.smddp_instance_types()) <= set(shapes.instance_types("TrainingInstanceType"))


@pytest.mark.parametrize(
    ("instance_type", "gpus", "other", "arm", "volume_key"),
    [
        ("ml.p4d.24xlarge", True, False, False, False),
        ("ml.g6e.xlarge", True, False, False, False),
        ("ml.p6-b200.48xlarge", True, False, False, False),
        ("ml.m5.xlarge", False, False, False, True),
        ("ml.m7i-flex.large", False, False, False, True),
        ("ml.m5d.xlarge", False, False, False, False),
        ("ml.m6g.large", False, False, True, True),
        ("ml.c6gd.large", False, False, True, False),
        ("ml.trn1.2xlarge", False, True, False, False),
        ("ml.inf2.xlarge", False, True, False, False),
    ],
)
def test_families_tell_what_an_instance_has(instance_type: str, gpus: bool, other: bool, arm: bool, volume_key: bool) -> None:
    assert (
        tables.has_gpus(instance_type),
        tables.has_other_accelerators(instance_type),
        tables.is_arm(instance_type),
        tables.takes_volume_key(instance_type),
    ) == (gpus, other, arm, volume_key)


def _offered(instance_type: str) -> set[str]:
    """Regions whose price list, as cfn-lint carries it, has the type: for SageMaker's clusters or endpoints, else for EC2."""
    lists = ("aws_sagemaker_cluster", "aws_sagemaker_hosting")
    found = {region for name in lists for region, row in _enum(name).items() if instance_type in row["enum"]}
    return found or {region for region, row in _enum("aws_ec2_instance").items() if instance_type.removeprefix("ml.") in row["enum"]}


def _enum(name: str) -> dict[str, dict[str, list[str]]]:
    folder = Path(str(find_spec("cfnlint.data").submodule_search_locations[0]))  # type: ignore[union-attr, index]
    table = json.loads((folder / "schemas" / "extensions" / name / "instancetype_enum.json").read_text(encoding="utf-8"))
    return {region: row for region, row in table.items() if region in az_id_prefixes()}


@pytest.mark.parametrize("instance_type", tables.smddp_instance_types())
def test_the_regions_of_smddp_are_those_of_the_price_list(instance_type: str) -> None:
    assert set(tables.smddp_regions(instance_type)) == _offered(instance_type)
