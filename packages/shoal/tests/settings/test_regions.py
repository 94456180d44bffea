"""The table of regions is what CloudFormation publishes, and asking for more is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER, ResourceNotFoundError

from shoal.settings.sections import regions
from shoal.settings.sections.regions import az_id_prefixes, resource_types_not_in
from tests.settings.environment_file import lines_with

TABLE = yaml.safe_load(Path(regions.__file__).with_name("regions.yaml").read_text())[
    "resource_types_not_in"
]


def _has(region: str, resource_type: str) -> bool:
    try:
        PROVIDER_SCHEMA_MANAGER.get_resource_schema(region, resource_type)
    except ResourceNotFoundError:
        return False
    return True


@pytest.mark.parametrize("resource_type", TABLE)
def test_the_table_is_what_cloudformation_publishes(resource_type: str) -> None:
    assert TABLE[resource_type] == [
        region for region in sorted(az_id_prefixes()) if not _has(region, resource_type)
    ]


@pytest.mark.parametrize(
    ("region", "changes", "key"),
    [
        ("ap-east-2", {}, 'region = "ap-east-2": needs AWS::SageMaker::ModelPackageGroup'),
        (
            "eu-north-1",
            {"observability": {"monthly_budget_usd": 100}},
            "monthly_budget_usd = 100: needs AWS::Budgets::Budget",
        ),
        (
            "ca-west-1",
            {"training": {"build_image": "pytorch-smddp"}},
            'build_image = "pytorch-smddp": needs AWS::CodeBuild::Project',
        ),
    ],
)
def test_what_a_region_does_not_have_is_one_line(
    tmp_path: Path, region: str, changes: dict[str, Any], key: str
) -> None:
    prefix = az_id_prefixes()[region]
    network = {
        "training_az_id": f"{prefix}-az1",
        "hosting_az_ids": [f"{prefix}-az1", f"{prefix}-az2"],
    }
    (line,) = lines_with(tmp_path, {"region": region, "network": network, **changes})
    assert key in line


def test_a_region_that_has_everything_lacks_nothing() -> None:
    assert resource_types_not_in("us-east-1") == ()
