"""What a run may cost before it begins, from prices with sources."""

import datetime
from typing import Any

import pytest

from local_kit.tables import table
from shoal.costs import prices
from shoal.costs.plan import plan
from shoal.pipelines.shapes import values_of
from shoal.settings.regions import az_id_prefixes
from shoal.settings.sections.channels import InputMode
from shoal.settings.sections.file_system import THROUGHPUTS, DeploymentType, FileSystem
from shoal.settings.sections.network import ExistingNetwork, InterfaceEndpoint, Network
from shoal.settings.sections.serving import Autoscaling, Serverless, Serving
from shoal.settings.settings import Environment, Training
from tests.pipelines.inputs import environment
from tests.settings.environment_file import RELEASE

SUBNETS = ("subnet-00000001", "subnet-00000002")
EXISTING = ExistingNetwork(
    vpc_id="vpc-00000000", training_subnet_id="subnet-00000000", hosting_subnet_ids=SUBNETS
)


def changed(**updates: Any) -> Environment:
    return environment().model_copy(update=updates)


def _at_rest(settings: Environment) -> dict[str, int]:
    return {line.what: line.quantity for line in plan(settings).at_rest.lines}


def test_at_rest_an_environment_without_options_pays_for_its_key_only() -> None:
    assert _at_rest(environment()) == {"KMS key": 1}


def test_what_is_asked_for_is_paid_for() -> None:
    network = Network(nat=True, interface_endpoints=(InterfaceEndpoint.STS,))
    data = environment().data.model_copy(update={"input_mode": InputMode.FSX})
    assert list(_at_rest(changed(network=network, data=data, file_system=FileSystem()))) == [
        "KMS key",
        "FSx for Lustre SCRATCH_2, 1200 GiB",
        "interface endpoint sts, one zone",
        "NAT gateway",
        "public address of the NAT gateway",
    ]


SCALED = Serving(autoscaling=Autoscaling(min=3, max=9, invocations_per_instance=60))
SERVERLESS = Serving(serverless=Serverless())
ROLLED_OUT = "while a release is rolled out, at least 15 min, the instances of the old and the new"


@pytest.mark.parametrize(
    ("serving", "lines", "note"),
    [
        (Serving(), {"serving on ml.m5.xlarge": 2}, ROLLED_OUT),
        (
            SCALED,
            {"serving on ml.m5.xlarge, at least": 3},
            "autoscaling may start up to 9 instances",
        ),
        (SERVERLESS, {}, "serverless inference is paid by the time"),
    ],
)
def test_the_serving_endpoint_costs_its_instances_for_as_long_as_it_exists(
    serving: Serving, lines: dict[str, int], note: str
) -> None:
    served = changed(serving=serving, release=RELEASE)
    assert _at_rest(served) == {"KMS key": 1} | lines
    assert any(each.startswith(note) for each in plan(served).notes)
    assert _at_rest(changed(serving=serving)) == {"KMS key": 1}


def test_of_a_list_the_dearest_is_in_the_sums_and_each_is_named() -> None:
    types = ("ml.g5.xlarge", "ml.p4d.24xlarge")
    listed = {"preferences": [{"instance_type": each, "instance_count": 2} for each in types]}
    costs = plan(changed(training=Training.model_validate({"capacity": listed})))
    assert costs.training.usd_per_hour == pytest.approx(2 * 25.251286)
    for each in types:
        begin = f"2 x {each}, if training gets it, costs ~"
        assert any(note.startswith(begin) for note in costs.notes)


def test_a_job_costs_its_nodes_for_as_long_as_it_may_run() -> None:
    update = {"instance_count": 3, "max_runtime_s": 7200}
    costs = plan(changed(training=environment().training.model_copy(update=update)))
    assert costs.training.usd_per_hour == pytest.approx(3 * 25.251286)
    assert costs.max_training_usd == pytest.approx(2 * 3 * 25.251286)


def test_while_a_job_runs_what_stands_at_rest_is_paid_too() -> None:
    costs = plan(environment())
    assert costs.while_training.usd_per_hour == pytest.approx(2 * 25.251286 + 1 / 730)


def test_a_price_that_is_not_known_is_named_and_in_no_sum() -> None:
    costs = plan(changed(region="eu-north-1"))
    assert costs.training.usd_per_hour == 0
    assert costs.while_training.unknown == ("KMS key", "training on ml.p4d.24xlarge")


def test_of_an_existing_vpc_the_plan_does_not_know_the_subnet() -> None:
    costs = plan(changed(network=Network(existing=EXISTING)))
    assert (costs.training_subnet, costs.usable_addresses) == (None, None)
    assert any("in no sum: an existing VPC" in note for note in costs.notes)


@pytest.mark.parametrize(
    ("region", "amount"), [("us-east-1", "~0.045 USD"), ("eu-north-1", "an unknown amount")]
)
def test_what_goes_through_a_nat_gateway_is_noted_with_its_price(region: str, amount: str) -> None:
    notes = plan(changed(network=Network(nat=True), region=region)).notes
    assert f"each GB through the NAT gateway costs {amount} besides; S3 is reached past it" in notes


def test_spot_and_a_pipeline_of_ones_own_are_noted() -> None:
    notes = " ".join(plan(changed(pipeline="mine.pipeline:build")).notes)  # trains on spot
    assert "spot capacity" in notes
    assert "the pipeline is your own (mine.pipeline:build)" in notes


GROUPS = [group for section in table(prices.__file__, "prices.yaml").values() for group in section]


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
    listed, estimated = (
        prices.instance("ml.p4d.24xlarge", region) for region in ("us-west-2", "us-east-1")
    )
    assert listed
    assert estimated
    assert listed.usd_per_hour == estimated.usd_per_hour == 25.251286
    assert (listed.is_estimate, estimated.is_estimate) == (False, True)


@pytest.mark.parametrize(
    ("instance_type", "region"),
    [("ml.p4d.24xlarge", "eu-central-1"), ("ml.p2.xlarge", "us-east-1")],
)
def test_what_the_table_lacks_has_no_price(instance_type: str, region: str) -> None:
    assert prices.instance(instance_type, region) is None


def persistent(throughput: int) -> FileSystem:
    return FileSystem(
        deployment_type=DeploymentType.PERSISTENT_2, throughput_mbps_per_tib=throughput
    )


def test_1200_gib_of_the_cheapest_persistent_file_system_cost_174_dollars_a_month() -> None:
    price = prices.file_system(persistent(125), "us-east-1")
    assert price is not None
    assert price.usd_per_hour * prices.HOURS_A_MONTH == pytest.approx(174)


@pytest.mark.parametrize("file_system", [FileSystem(), *map(persistent, THROUGHPUTS)])
def test_every_kind_of_file_system_has_a_price_in_the_default_region(
    file_system: FileSystem,
) -> None:
    assert prices.file_system(file_system, "us-east-1")
