"""The tables are complete, agree with each other, and every fact of smddp has a source."""

from __future__ import annotations

import re

import pytest

from config.regions import az_id_prefixes
from pipelines import shapes
from pipelines.launch import tables


def test_every_region_of_the_project_has_a_registry() -> None:
    assert [region for region in az_id_prefixes() if tables.registry(region) is None] == []


def test_every_smddp_release_has_an_image_and_a_source() -> None:
    releases = tables.smddp_releases("pytorch")
    assert set(releases) <= set(tables.image_tags("pytorch"))
    assert all(re.search(r"\[(support|release|dlc)\]", release.source) for release in releases.values())


def test_tags_name_their_own_version_and_are_full() -> None:
    full = re.compile(r"^(?P<version>[\d.]+)-(gpu-py\d+-cu\d+|cpu-py\d+)-ubuntu2\d\.04-sagemaker$")
    for version, tags in tables.image_tags("pytorch").items():
        matches = [full.match(tag) for tag in (tags.training_gpu, tags.training_cpu, tags.inference_cpu)]
        assert [match and match["version"] for match in matches] == [version] * 3


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
