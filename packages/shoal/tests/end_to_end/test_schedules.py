"""A deployed schedule, with the policies of its roles enforced and a clock sixty times as fast: it
starts executions, one at a time.
"""

from __future__ import annotations

import io
import itertools
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.cli.main import main
from shoal.constructs import use_installed_node
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.schedules import Schedule

use_installed_node()

import aws_cdk as cdk  # noqa: E402 - starts Node.js

from local_kit.control import Account, eventually, running, still  # noqa: E402
from shoal.constructs.schedules.schedules import Schedules  # noqa: E402
from tests.cli.documents import document_in  # noqa: E402
from tests.functions.invocation import FUNCTIONS  # noqa: E402
from tests.functions.test_start import PIPELINE, executions, make_pipeline  # noqa: E402
from tests.repository import ROOT  # noqa: E402
from tests.settings.environment_file import copy_workloads  # noqa: E402

pytestmark = pytest.mark.nightly

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


def archived(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for file in folder.glob("*.py"):
            archive.write(file, file.name)
    return buffer.getvalue()


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
        code = archived(FUNCTIONS / folder)
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


def test_it_starts_executions_again_and_again_and_never_two_at_once(account: Account) -> None:
    assert eventually(lambda: len(executions(account, "Succeeded")) >= 2, 60.0), log(account)
    describe = account.client("sagemaker").describe_pipeline_execution
    found = [
        describe(PipelineExecutionArn=each["PipelineExecutionArn"]) for each in executions(account)
    ]
    spans = sorted((each["CreationTime"], each["LastModifiedTime"]) for each in found)
    assert all(ended <= began for (_, ended), (began, _) in itertools.pairwise(spans))


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


def test_what_came_while_one_ran_started_nothing_and_says_so(account: Account) -> None:
    assert "started nothing, because" in eventually(
        lambda: log(account) if "started nothing" in log(account) else ""
    )


def test_scheduler_called_the_function_under_its_own_role_and_was_allowed(account: Account) -> None:
    assert eventually(lambda: 202 in answers(account), 60.0)
    assert set(answers(account)) <= {202, 404}  # 404 while there is no function


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
