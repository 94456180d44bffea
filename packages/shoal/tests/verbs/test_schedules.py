"""Live schedules: compared with the file, paused with their alarm, and resumed as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import trust
from shoal.aws.inventory import Owner, Resource, of_environment
from shoal.aws.target import Target
from shoal.errors import NotFoundError
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.schedules import Schedule
from shoal.verbs.destroy.schedules import LiveSchedule, Schedules
from shoal.verbs.local_server import LocalServer
from tests.cli.trained import Checkout
from tests.repository import ROOT

SCHEDULE = Schedule(name="nightly", expression="cron(0 3 * * ? *)", time_zone="Europe/Berlin")
NAMES = Names(
    load_environment("dev", ROOT).model_copy(update={"project": "timed", "schedules": (SCHEDULE,)})
)
ALARM = NAMES.alarm(NAMES.missed_schedule("nightly"))


@pytest.fixture
def schedules(target: Target) -> Iterator[Schedules]:
    """Deploy one schedule as the stack does, with its alarm."""
    scheduler, group = target.client("scheduler"), NAMES.schedule_group
    scheduler.create_schedule_group(Name=group)
    scheduler.create_schedule(
        Name="nightly",
        GroupName=group,
        ScheduleExpression=SCHEDULE.expression,
        ScheduleExpressionTimezone=SCHEDULE.time_zone,
        FlexibleTimeWindow={"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15},
        Target={
            "Arn": NAMES.arn("lambda", "function:any"),
            "RoleArn": role(target),
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
    target.client("cloudwatch").delete_alarms(AlarmNames=[ALARM])


def role(target: Target) -> str:
    document, iam = trust({"Service": "scheduler.amazonaws.com"}), target.client("iam")
    if "timed" not in {each["RoleName"] for each in iam.list_roles()["Roles"]}:
        iam.create_role(RoleName="timed", AssumeRolePolicyDocument=document)
    return str(iam.get_role(RoleName="timed")["Role"]["Arn"])


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


def test_pausing_changes_the_state_and_nothing_else(schedules: Schedules, target: Target) -> None:
    before = live(target)
    assert schedules.set_paused("nightly", True).differs
    assert live(target) == {**before, "State": "DISABLED"}


def test_a_paused_schedule_does_not_ring(schedules: Schedules, target: Target) -> None:
    def rings() -> bool:
        (alarm,) = target.client("cloudwatch").describe_alarms(AlarmNames=[ALARM])["MetricAlarms"]
        return bool(alarm["ActionsEnabled"])

    schedules.set_paused("nightly", True)
    while_paused = rings()
    schedules.set_paused("nightly", False)
    assert (while_paused, rings()) == (False, True)


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
