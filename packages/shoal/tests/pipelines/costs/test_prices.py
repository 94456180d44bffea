"""Prices have a source and a date, and a price that is not in the table is unknown."""

from __future__ import annotations

import datetime
from itertools import product

import pytest
import yaml

from shoal.costs import prices
from shoal.pipelines.validation.shapes import values_of
from shoal.settings.regions import az_id_prefixes
from shoal.settings.sections.file_system import THROUGHPUTS, DeploymentType, FileSystem
from tests.repository import ROOT
from tests.tables import rows

GROUPS = [
    group
    for section in yaml.safe_load(
        (ROOT / "packages" / "shoal" / "src" / "shoal" / "costs" / "prices.yaml").read_text(
            encoding="utf-8"
        )
    ).values()
    for group in section
]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group["source"][:30])
def test_every_price_has_a_source_a_date_and_regions_that_exist(group: dict[str, object]) -> None:
    regions = [*group.get("listed", []), *group["estimated"]]  # type: ignore[misc]
    assert isinstance(group["date"], datetime.date)
    assert len(str(group["source"])) > 20
    assert set(regions) <= set(az_id_prefixes())


def test_every_priced_instance_type_is_one_of_sagemakers() -> None:
    priced = {name for group in GROUPS for name in group["usd"] if name.startswith("ml.")}
    assert priced - set(values_of("TrainingInstanceType")) == set()


def test_a_price_of_another_regions_list_is_an_estimate() -> None:
    on_demand = [
        prices.instance("ml.p4d.24xlarge", region) for region in ("us-west-2", "us-east-1")
    ]
    assert [(each.usd_per_hour, each.is_estimate) for each in on_demand if each] == [
        (25.251286, False),
        (25.251286, True),
    ]


@pytest.mark.parametrize(
    ("instance_type", "of_ec2", "ratio"), rows(__file__, "prices.yaml", "estimates")
)
def test_an_estimate_has_the_ratio_to_ec2_of_listed_types_of_its_kind(
    instance_type: str, of_ec2: float, ratio: float
) -> None:
    price = prices.instance(instance_type, "us-east-1")
    assert price is not None
    assert price.usd_per_hour == pytest.approx(ratio * of_ec2, abs=0.01)


@pytest.mark.parametrize(
    ("instance_type", "region"),
    [("ml.p4d.24xlarge", "eu-central-1"), ("ml.p2.xlarge", "us-east-1")],
)
def test_what_the_table_lacks_has_no_price(instance_type: str, region: str) -> None:
    assert prices.instance(instance_type, region) is None


def test_1200_gib_of_the_cheapest_persistent_file_system_cost_174_dollars_a_month() -> None:
    price = prices.file_system(
        FileSystem(deployment_type=DeploymentType.PERSISTENT_2, throughput_mbps_per_tib=125),
        "us-east-1",
    )
    assert price is not None
    assert price.usd_per_hour * prices.HOURS_A_MONTH == pytest.approx(174)


def test_every_kind_of_file_system_that_can_be_asked_for_has_a_price_in_the_default_region() -> (
    None
):
    kinds = [(DeploymentType.SCRATCH_2, None), *product([DeploymentType.PERSISTENT_2], THROUGHPUTS)]
    on_demand = [
        prices.file_system(
            FileSystem(deployment_type=kind, throughput_mbps_per_tib=each), "us-east-1"
        )
        for kind, each in kinds
    ]
    assert None not in on_demand
