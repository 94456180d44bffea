"""What shoal-local has of an environment: its schedules, and all its resources by owner."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import make_role
from local_kit.tables import rows
from shoal.aws.inventory import KINDS, Owner, Resource, of_environment
from shoal.aws.target import Target
from shoal.errors import NotFoundError
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.schedules import Schedule
from shoal.settings.settings import Environment
from shoal.verbs.destroy.schedules import LiveSchedule, Schedules
from shoal.verbs.local_server import LocalServer
from tests.cli.trained import Checkout
from tests.repository import ROOT
from tests.verbs.conftest import ACCOUNT, make_pipeline
from tests.verbs.test_execution import gate

SCHEDULE = Schedule(name="nightly", expression="cron(0 3 * * ? *)", time_zone="Europe/Berlin")
NAMES = Names(
    load_environment("dev", ROOT).model_copy(update={"project": "timed", "schedules": (SCHEDULE,)})
)
ALARM = NAMES.alarm(NAMES.missed_schedule("nightly"))


@pytest.fixture
def schedules(target: Target) -> Iterator[Schedules]:
    """Deploy one schedule as the stack does, with its alarm."""
    scheduler, group = target.client("scheduler"), NAMES.schedule_group
    iam = target.client("iam")
    role = make_role(iam, "timed", {"Service": "scheduler.amazonaws.com"})
    scheduler.create_schedule_group(Name=group)
    scheduler.create_schedule(
        Name="nightly",
        GroupName=group,
        ScheduleExpression=SCHEDULE.expression,
        ScheduleExpressionTimezone=SCHEDULE.time_zone,
        FlexibleTimeWindow={"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15},
        Target={
            "Arn": NAMES.arn("lambda", "function:any"),
            "RoleArn": role,
            "Input": '{"schedule": "nightly"}',
        },
    )
    target.client("cloudwatch").put_metric_alarm(
        AlarmName=ALARM,
        ComparisonOperator="LessThanThreshold",
        EvaluationPeriods=1,
        MetricName="m",
        Namespace="n",
        Period=60,
        Threshold=1,
    )
    yield Schedules(target, NAMES)
    scheduler.delete_schedule_group(Name=group)
    iam.delete_role(RoleName="timed")
    target.client("cloudwatch").delete_alarms(AlarmNames=[ALARM])


def live(target: Target) -> dict[str, Any]:
    schedule: dict[str, Any] = target.client("scheduler").get_schedule(
        GroupName=NAMES.schedule_group, Name="nightly"
    )
    return {
        key: value
        for key, value in schedule.items()
        if key not in ("ResponseMetadata", "LastModificationDate")
    }


def test_a_deployed_schedule_is_as_the_file_says(schedules: Schedules) -> None:
    assert schedules.all() == [
        LiveSchedule(
            "nightly",
            NAMES.pipeline,
            "cron(0 3 * * ? *)",
            "Europe/Berlin",
            paused=False,
            paused_in_file=False,
            rings=True,
        )
    ]
    assert not schedules.all()[0].differs


def test_pausing_changes_the_state_and_the_alarm_and_nothing_else(
    schedules: Schedules, target: Target
) -> None:
    def rings() -> bool:
        (alarm,) = target.client("cloudwatch").describe_alarms(AlarmNames=[ALARM])["MetricAlarms"]
        return bool(alarm["ActionsEnabled"])

    before = live(target)
    assert schedules.set_paused("nightly", True).differs
    assert (live(target), rings()) == ({**before, "State": "DISABLED"}, False)
    schedules.set_paused("nightly", False)
    assert (live(target), rings()) == (before, True)


def test_a_schedule_with_a_silent_alarm_is_known(schedules: Schedules, target: Target) -> None:
    target.client("cloudwatch").disable_alarm_actions(AlarmNames=[ALARM])
    assert schedules.all()[0].is_silent
    assert not schedules.set_paused("nightly", False).is_silent


def test_an_unknown_schedule_is_refused_with_those_there_are(schedules: Schedules) -> None:
    with pytest.raises(NotFoundError, match=r"no schedule 'weekly'.*deployed are: nightly"):
        schedules.set_paused("weekly", True)


def test_a_destruction_pauses_before_a_synth_that_fails(
    schedules: Schedules,
    local_server: LocalServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    checkout = Checkout.new(tmp_path, local_server.state)  # without an app.py
    for name in ("package.json", "package-lock.json", "node_modules"):  # else npm asks the network
        (checkout.root / name).symlink_to(ROOT / name)
    with (checkout.root / "environments/dev.yaml").open("a") as file:
        file.write("\nproject: timed\n")
    assert [checkout.shoal("destroy", "dev") for _ in range(2)] == [1, 1]
    assert schedules.all()[0].paused
    assert "".join(capfd.readouterr()).count("pausing schedule nightly") == 1


def test_an_environment_without_schedules_has_none(target: Target) -> None:
    assert Schedules(target, NAMES).all() == []


def test_a_group_is_found_by_its_environment(schedules: Schedules, target: Target) -> None:
    assert of_environment(target, Owner(NAMES.prefix), ["schedule group"]) == (
        Resource("schedule group", NAMES.prefix),
    )


PREFIX = "shoal-inventory-dev"


@pytest.mark.parametrize(("name", "owned"), rows(__file__, "cases.yaml", "owned"))
def test_an_owner_knows_its_prefix_its_executions_and_its_neighbours(
    name: str, owned: bool
) -> None:
    assert Owner(PREFIX, ("abc123",), others=(f"{PREFIX}-b",)).owns(name) == owned


def test_each_kind_is_found_and_gone_when_it_is_deleted(target: Target) -> None:
    prefix = f"shoal-{uuid.uuid4().hex[:8]}"
    sqs, logs, s3 = target.client("sqs"), target.client("logs"), target.client("s3")
    url = sqs.create_queue(QueueName=f"{prefix}-queue")["QueueUrl"]
    logs.create_log_group(logGroupName=f"/aws/lambda/{prefix}-teardown")
    s3.create_bucket(Bucket=f"{prefix}-data")
    resources = of_environment(target, Owner(prefix))
    sqs.delete_queue(QueueUrl=url)
    logs.delete_log_group(logGroupName=f"/aws/lambda/{prefix}-teardown")
    s3.delete_bucket(Bucket=f"{prefix}-data")
    assert resources == (
        Resource("bucket", f"{prefix}-data"),
        Resource("log group", f"/aws/lambda/{prefix}-teardown"),
        Resource("queue", f"{prefix}-queue"),
    )
    assert of_environment(target, Owner(prefix)) == ()


def test_a_pipeline_and_its_role_are_found(target: Target) -> None:
    name = f"shoal-{uuid.uuid4().hex[:8]}"
    make_pipeline(target, [gate(met=True)], name=name)
    assert of_environment(target, Owner(name)) == (
        Resource("pipeline", name),
        Resource("role", f"{name}-role"),
    )


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_lister_is_answered(target: Target, kind: str) -> None:
    assert (
        of_environment(target, Owner(f"shoal-{uuid.uuid4().hex}", ("abcdefabcdef",)), [kind]) == ()
    )


def test_what_costs_money_or_is_a_network_is_known_by_its_tags(target: Target) -> None:
    names = Names(Environment(name="dev", workload="churn", project="tagged", account=ACCOUNT))
    owner, ec2, fsx = Owner.of(names), target.client("ec2"), target.client("fsx")
    tags = [
        {"Key": f"shoal:{key}", "Value": value}
        for key, value in (("project", "tagged"), ("environment", "dev"))
    ]
    of_vpc, of_gateway, of_address = (
        [{"ResourceType": kind, "Tags": tags}] for kind in ("vpc", "natgateway", "elastic-ip")
    )
    vpc = ec2.create_vpc(CidrBlock="10.8.0.0/16", TagSpecifications=of_vpc)["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.8.0.0/24")["Subnet"]["SubnetId"]
    address = ec2.allocate_address(Domain="vpc", TagSpecifications=of_address)["AllocationId"]
    gateway = ec2.create_nat_gateway(
        SubnetId=subnet, AllocationId=address, TagSpecifications=of_gateway
    )["NatGateway"]["NatGatewayId"]
    lustre = {"DeploymentType": "SCRATCH_2"}
    response = fsx.create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=[subnet],
        LustreConfiguration=lustre,
        Tags=tags,
    )
    file_system = response["FileSystem"]["FileSystemId"]
    resources = of_environment(target, owner)
    fsx.delete_file_system(FileSystemId=file_system)
    ec2.delete_nat_gateway(NatGatewayId=gateway)
    ec2.release_address(AllocationId=address)
    ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_vpc(VpcId=vpc)
    assert resources == (
        Resource("file system", file_system),
        Resource("nat gateway", gateway),
        Resource("public address", address),
        Resource("vpc", vpc),
    )
    assert of_environment(target, owner) == ()
