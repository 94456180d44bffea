"""Which times an expression of EventBridge Scheduler means, and a deployed schedule with the
policies of its roles enforced: on a clock sixty times as fast it starts executions, one at a time.
"""

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from local_kit.tables import rows, table
from shoal.cli.main import main
from shoal.constructs import use_installed_node
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.parsing.schedule_expressions import max_gap_minutes
from shoal.settings.sections.schedules import Schedule
from shoal_local.control.schedule_expressions import parse

START = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)  # a Friday


def times(
    expression: str, count: int, zone: str = "UTC", since: datetime = START
) -> list[datetime]:
    parsed, found = parse(expression, zone), [since - timedelta(seconds=1)]
    for _ in range(count):
        due_at = parsed.next(since, found[-1])
        assert due_at is not None
        found.append(due_at)
    return found[1:]


def days(expression: str, count: int) -> list[str]:
    return [f"{moment:%m-%d}" for moment in times(expression, count)]


def test_a_rate_begins_at_once() -> None:
    assert times("rate(1 minute)", 3) == [
        START,
        START + timedelta(minutes=1),
        START + timedelta(minutes=2),
    ]


def test_a_rate_that_was_late_goes_on_where_it_would_have_been() -> None:
    late = START + timedelta(minutes=7, seconds=30)
    assert parse("rate(5 minutes)", "UTC").next(START, late) == START + timedelta(minutes=10)


@pytest.mark.parametrize(("expression", "expected"), rows(__file__, "cases.yaml", "days"))
def test_days_are_those_that_the_expression_means(expression: str, expected: list[str]) -> None:
    assert days(expression, 3) == expected


def test_minutes_and_hours_are_lists_ranges_and_steps() -> None:
    found = [f"{moment:%H:%M}" for moment in times("cron(0/30 11-12,22 * * ? *)", 6)]
    assert found == ["11:00", "11:30", "12:00", "12:30", "22:00", "22:30"]


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (datetime(2027, 3, 26, 12, tzinfo=UTC), ["03-27 01:30", "03-29 00:30", "03-30 00:30"]),
        (datetime(2027, 10, 30, 12, tzinfo=UTC), ["10-31 00:30", "11-01 01:30", "11-02 01:30"]),
    ],
    ids=["spring", "autumn"],
)
def test_an_hour_that_is_skipped_has_no_time_and_one_that_is_repeated_has_one(
    since: datetime, expected: list[str]
) -> None:
    found = times("cron(30 2 * * ? *)", 3, "Europe/Berlin", since)
    assert [f"{moment:%m-%d %H:%M}" for moment in found] == expected


def test_a_year_that_is_over_means_no_more_times() -> None:
    assert parse("cron(0 3 * * ? 2025)", "UTC").next(START, START) is None


def longest(expression: str) -> timedelta:
    """Between two of many times; what comes three times a month or less is looked at until dates
    and weekdays come back, in 28 years.
    """
    parsed, found = parse(expression, "UTC"), [START]
    while len(found) < 1300 and found[-1] < START + timedelta(days=28 * 366):
        due_at = parsed.next(START, found[-1])
        assert due_at is not None
        found.append(due_at)
    return max(later - earlier for earlier, later in itertools.pairwise(found[1:]))


@pytest.mark.parametrize("expression", table(__file__, "cases.yaml")["gaps"])
def test_the_gap_that_alarms_are_made_from_is_the_longest_between_these_times(
    expression: str,
) -> None:
    assert longest(expression) == timedelta(minutes=max_gap_minutes(expression) or 0)


use_installed_node()

import aws_cdk as cdk  # noqa: E402 - starts Node.js

from local_kit.control import Account, eventually, running, still  # noqa: E402
from shoal.constructs.schedules import Schedules  # noqa: E402
from tests.cli.trained import document_in  # noqa: E402
from tests.functions.invocation import FUNCTIONS  # noqa: E402
from tests.functions.test_start import PIPELINE, executions, make_pipeline  # noqa: E402
from tests.repository import ROOT, zipped_modules  # noqa: E402
from tests.settings.environment_file import copy_workloads  # noqa: E402

OFTEN = Schedule(
    name="often", expression="rate(1 minute)", parameters={"Epochs": 3, "Seconds": "2.5"}
)
STACK = "schedules"


def template(folder: Path, schedule: Schedule) -> dict[str, Any]:
    """The stack of the schedules alone, with a pipeline that is there already."""
    environment = load_environment("dev", ROOT).model_copy(update={"schedules": (schedule,)})
    app = cdk.App(outdir=str(folder))
    stack = cdk.Stack(
        app, STACK, env=cdk.Environment(account=environment.account, region=environment.region)
    )
    Schedules(stack, "Schedules", names=Names(environment))
    return dict(app.synth().get_stack_by_name(STACK).template)


def deploy(account: Account, document: dict[str, Any]) -> None:
    """What the CLI does: the functions' code into the bootstrap bucket, then the template.

    Their folders, or their modules, are called like their purposes, with which their names end.
    """
    functions = [
        each["Properties"]
        for each in document["Resources"].values()
        if each["Type"] == "AWS::Lambda::Function"
    ]
    account.client("s3").create_bucket(Bucket=functions[0]["Code"]["S3Bucket"])
    for each in functions:
        place = {"Bucket": each["Code"]["S3Bucket"], "Key": each["Code"]["S3Key"]}
        purpose = each["FunctionName"].rpartition("-")[2]
        folder = {"sweep": "teardown"}.get(purpose, purpose)
        code = zipped_modules(FUNCTIONS / folder)
        account.client("s3").put_object(**place, Body=code)
    account.client("ssm").put_parameter(
        Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String"
    )
    found = account.stack(
        document["Resources"],
        STACK,
        **{key: document[key] for key in document if key not in ("Resources", "Rules")},
    )
    assert found["StackStatus"] == "CREATE_COMPLETE", account.failures(STACK)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `shoal` needs of a checkout: the environment's file, and the place where a local
    emulator is found.
    """
    folder = tmp_path_factory.mktemp("checkout")
    copy_workloads(folder)
    (folder / ".shoal").mkdir()
    content = yaml.safe_load((ROOT / "environments" / "dev.yaml").read_text())
    content["schedules"] = [OFTEN.model_dump(mode="json", exclude_unset=True)]
    (folder / "environments" / "dev.yaml").write_text(yaml.safe_dump(content))
    return folder


@pytest.fixture(scope="module")
def account(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with running(root / ".shoal" / "local", "--enforce-iam") as found:
        make_pipeline(found)
        deploy(found, template(tmp_path_factory.mktemp("cdk.out"), OFTEN))
        yield found
        found.client("cloudformation").delete_stack(StackName=STACK)
        scheduler = found.client("scheduler")
        groups = scheduler.list_schedule_groups
        assert eventually(
            lambda: [each["Name"] for each in groups()["ScheduleGroups"]] == ["default"]
        )
        assert scheduler.list_schedules()["Schedules"] == []


def answers(account: Account) -> list[int]:
    """The statuses that Lambda answered to the scheduler's role."""
    role = "shoal-mnist-dev-us-east-1-scheduler"
    return [each["status"] for each in account.requests("Invoke") if role in each["caller"]]


def log(account: Account) -> str:
    return "\n".join(account.log(f"{PIPELINE}-start"))


@pytest.mark.nightly
def test_it_starts_executions_again_and_again_and_never_two_at_once(account: Account) -> None:
    assert eventually(lambda: len(executions(account, "Succeeded")) >= 2, 60.0), log(account)
    describe = account.client("sagemaker").describe_pipeline_execution
    found = [
        describe(PipelineExecutionArn=each["PipelineExecutionArn"]) for each in executions(account)
    ]
    spans = sorted(  # a second one that was started in the same moment is stopped
        (each["CreationTime"], each["LastModifiedTime"])
        for each in found
        if each["PipelineExecutionStatus"] not in {"Stopping", "Stopped"}
    )
    assert all(ended <= began for (_, ended), (began, _) in itertools.pairwise(spans))


@pytest.mark.nightly
def test_each_was_started_by_the_schedule_with_its_parameters(
    root: Path, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    (*_, first) = eventually(lambda: executions(account), 60.0)
    given = account.client("sagemaker").list_pipeline_parameters_for_execution(
        PipelineExecutionArn=first["PipelineExecutionArn"]
    )
    assert first["PipelineExecutionDisplayName"].startswith("often-20")
    assert {"Name": "Epochs", "Value": "3"} in given["PipelineParameters"]
    assert main(["--root", str(root), "status", "dev", "--local"]) == 0
    run = first["PipelineExecutionArn"].rpartition("/")[2]
    (row,) = (row for row in capsys.readouterr().out.splitlines() if row.startswith(run))
    assert row.endswith(first["PipelineExecutionDisplayName"])


@pytest.mark.nightly
def test_what_came_while_one_ran_started_nothing_and_says_so(account: Account) -> None:
    assert "started nothing, because" in eventually(
        lambda: log(account) if "started nothing" in log(account) else ""
    )


@pytest.mark.nightly
def test_scheduler_called_the_function_under_its_own_role_and_was_allowed(account: Account) -> None:
    assert eventually(lambda: 202 in answers(account), 60.0)
    assert set(answers(account)) <= {202, 404}  # 404 while there is no function


@pytest.mark.nightly
def test_a_paused_schedule_starts_nothing_until_it_is_resumed(
    root: Path, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--root", str(root), "schedule", "pause", "dev", "often", "--local"]) == 0
    assert (
        "live it is paused, and environments/dev.yaml says `paused: false`"
        in capsys.readouterr().out
    )
    calls = still(lambda: answers(account))  # what was under way may still come
    assert not eventually(lambda: answers(account) != calls, 3.0)
    words = ["schedule", "resume", "dev", "often", "--local", "--json"]
    assert main(["--root", str(root), *words]) == 0
    (schedule,) = document_in(capsys.readouterr().out)["schedules"]
    assert (schedule["name"], schedule["paused"]) == ("often", False)
    assert eventually(lambda: len(answers(account)) > len(calls) + 2)


@pytest.mark.nightly
def test_a_function_that_is_gone_leaves_dead_letters_under_the_same_role(account: Account) -> None:
    functions, name = account.client("lambda"), f"{PIPELINE}-start"
    kept = functions.get_function_configuration(FunctionName=name)
    template = account.client("cloudformation").get_template(StackName=STACK)["TemplateBody"]
    resources = (template if isinstance(template, dict) else json.loads(template))["Resources"]
    (code,) = [
        each["Properties"]["Code"]
        for each in resources.values()
        if each.get("Properties", {}).get("FunctionName") == name
    ]
    functions.delete_function(FunctionName=name)
    deployed = account.client("cloudformation").describe_stack_resources(StackName=STACK)
    (url,) = [
        each["PhysicalResourceId"]
        for each in deployed["StackResources"]
        if each["ResourceType"] == "AWS::SQS::Queue"
    ]
    assert account.received(url)[0]["schedule"] == "often"
    same = ("FunctionName", "Runtime", "Role", "Handler", "Timeout", "MemorySize", "Environment")
    functions.create_function(**{key: kept[key] for key in same}, Code=code)
