"""A deployed weekly schedule with its alarm, the policies of all roles enforced and a clock 600
times as fast: who looks, what rings.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shoal.constructs import use_installed_node
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.schedules import Schedule

use_installed_node()

import aws_cdk as cdk  # noqa: E402 - starts Node.js
from aws_cdk import aws_kms as kms  # noqa: E402

from local_kit.control import Account, eventually, running  # noqa: E402
from shoal.constructs.monitoring.alarms import Alarms  # noqa: E402
from shoal.constructs.schedules import ScheduleAlarms, Schedules  # noqa: E402
from shoal.constructs.teardown import Sweeper  # noqa: E402
from tests.end_to_end.test_schedules import STACK, deploy  # noqa: E402
from tests.functions.test_start import PIPELINE, make_pipeline  # noqa: E402
from tests.repository import ROOT  # noqa: E402

pytestmark = pytest.mark.nightly
WEEKLY = Schedule(name="weekly", expression="cron(0 6 ? * MON *)")
NAMES = Names(load_environment("dev", ROOT).model_copy(update={"schedules": (WEEKLY,)}))


def template(folder: Path) -> dict[str, Any]:
    """The schedule and what watches it, in one stack."""
    app = cdk.App(outdir=str(folder))
    stack = cdk.Stack(
        app,
        STACK,
        env=cdk.Environment(account=NAMES.environment.account, region=NAMES.environment.region),
    )
    Schedules(stack, "Schedules", names=NAMES)
    Sweeper(stack, "Sweeper", names=NAMES)
    alarms = Alarms(stack, "Alarms", names=NAMES, key=kms.Key(stack, "Key"))
    ScheduleAlarms(stack, "ScheduleAlarms", names=NAMES, alarms=alarms)
    return dict(app.synth().get_stack_by_name(STACK).template)


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with running(
        tmp_path_factory.mktemp("emulator"), "--enforce-iam", "--schedule-speed", "600"
    ) as found:
        make_pipeline(found)
        deploy(found, template(tmp_path_factory.mktemp("cdk.out")))
        yield found


def looked(account: Account, **later: float) -> Any:
    """What the deployed sweeper says, called as its rule calls it, some time from now."""
    at = datetime.now(UTC) + timedelta(**later)
    event = {"time": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
    answer = account.invoke(f"{PIPELINE}-sweep", event)["payload"]
    assert "overdue" in answer, answer
    return answer["overdue"]


def state(account: Account) -> str:
    name = NAMES.alarm(NAMES.missed_schedule("weekly"))
    (found,) = account.client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]
    return str(found["StateValue"])


def delivered(account: Account) -> Any:
    event = {
        "schedule": "weekly",
        "schedule_arn": NAMES.schedule_arn("weekly"),
        "scheduled_time": "2026-11-23T06:00:00Z",
        "parameters": {},
    }
    return account.invoke(f"{PIPELINE}-start", event)["payload"]["status"]


def test_the_rule_has_the_function_look_and_the_alarm_is_quiet(account: Account) -> None:
    assert eventually(lambda: state(account) == "OK", 60.0), account.log(f"{PIPELINE}-sweep")


def test_the_alarm_rings_nine_days_after_a_start_and_not_after_three(account: Account) -> None:
    assert delivered(account) == "started"
    assert [looked(account, days=days) for days in (3, 9)] == [{"weekly": 0}, {"weekly": 1}]
    assert state(account) == "ALARM"


def test_the_function_is_told_that_a_schedule_is_gone(account: Account) -> None:
    scheduler = account.client("scheduler")
    weekly = scheduler.get_schedule(GroupName=NAMES.schedule_group, Name="weekly")
    scheduler.delete_schedule(GroupName=NAMES.schedule_group, Name="weekly")
    assert looked(account) == {"weekly": 1}
    for key in ("Arn", "CreationDate", "LastModificationDate", "ResponseMetadata"):
        weekly.pop(key, None)
    scheduler.create_schedule(**weekly)
