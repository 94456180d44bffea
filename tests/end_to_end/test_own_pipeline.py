"""An environment whose pipeline is a user's own function, deployed with the real CLI: it runs, a
manifest starts it, and what is changed behind git's back is found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from config.loader import load_environment
from config.names import Names
from local.tests.control.account import eventually
from shoal.cli.main import main
from shoal.verbs.assembly import stacks_of
from shoal.verbs.deployed_stack import DeployedStack
from shoal.verbs.drift import Item, compare
from shoal.verbs.target import Target
from tests.end_to_end.conftest import Checkout

ACCOUNT = "111122223333"
PIPELINE = "shoal-mnist-mine"
ENVIRONMENT = """\
name: mine
workload: mnist
account: "111122223333"
region: us-east-1
protect: false
pipeline: my_pipelines.hello:build
schedules:
  - {name: nightly, expression: "cron(0 3 * * ? *)"}
  - {name: weekly, expression: "cron(0 6 ? * MON *)"}
data:
  on_manifest: {parameters: {Whom: Ada}}
observability: {alert_emails: [team@example.com, boss@example.com], monthly_budget_usd: 500}
"""
MODULE = """
from pipelines.launch import resolve


def build(environment, infrastructure):
    vpc = {"Subnets": list(infrastructure.training_subnet_ids), "SecurityGroupIds": list(infrastructure.training_security_group_ids)}
    said = {"Std:Join": {"On": " ", "Values": ["hello", {"Get": "Parameters.Whom"}]}}
    image = resolve(environment.training, environment.region).evaluation_image_uri
    arguments = {
        "RoleArn": infrastructure.evaluation_role_arn,
        "AppSpecification": {"ImageUri": image, "ContainerEntrypoint": ["echo"], "ContainerArguments": [said]},
        "ProcessingResources": {"ClusterConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10}},
        "NetworkConfig": {"VpcConfig": vpc},
    }
    parameters = [
        {"Name": "DataManifest", "Type": "String", "DefaultValue": "none"},
        {"Name": "Whom", "Type": "String", "DefaultValue": "world"},
    ]
    return {"Version": "2020-12-01", "Parameters": parameters, "Steps": [{"Name": "Hello", "Type": "Processing", "Arguments": arguments}]}
"""  # noqa: E501


@pytest.fixture(scope="module")
def mine(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    own = checkout.with_environment(tmp_path_factory.mktemp("mine"), "mine", ENVIRONMENT)
    (own.root / "my_pipelines").mkdir()
    (own.root / "my_pipelines" / "hello.py").write_text(MODULE)
    yield own
    own.run("local", "down")


@pytest.fixture(scope="module")
def target(mine: Checkout) -> Target:
    """The environment, deployed with the policies of its roles enforced."""
    started = mine.run("local", "up", "mine", "--enforce-iam")
    assert started.exit_code == 0, started.output
    before = mine.run("drift", "mine", "--local")
    assert (before.exit_code, "run `shoal deploy mine`" in before.output) == (
        2,
        True,
    ), before.output
    result = mine.run("deploy", "mine", "--local")
    assert result.exit_code == 0, result.output
    return mine.local_target


@pytest.fixture(scope="module")
def names(mine: Checkout) -> Names:
    return Names(load_environment("mine", mine.root))


@pytest.fixture
def look(mine: Checkout, target: Target, names: Names) -> Callable[[], list[Item]]:
    """What differs now, by the templates of the deployment."""
    assembly = mine.root / ".shoal" / "cdk" / "mine" / "cdk.out"
    return lambda: [
        each
        for each in compare(
            names, [DeployedStack(target, stack) for stack in stacks_of(assembly, "mine")]
        )
        if not each.agrees
    ]


def test_a_budget_and_everybody_who_is_mailed_are_deployed(target: Target) -> None:
    (budget,) = target.client("budgets").describe_budgets(AccountId="111122223333")["Budgets"]
    told = {each["Endpoint"] for each in target.client("sns").list_subscriptions()["Subscriptions"]}
    assert (budget["BudgetName"], float(budget["BudgetLimit"]["Amount"])) == (PIPELINE, 500)
    assert {"team@example.com", "boss@example.com"} <= told


def test_what_is_deployed_is_the_functions_definition(target: Target) -> None:
    described = target.client("sagemaker").describe_pipeline(PipelineName=PIPELINE)
    (step,) = json.loads(described["PipelineDefinition"])["Steps"]
    assert step["Name"] == "Hello"
    assert step["Arguments"]["NetworkConfig"]["VpcConfig"]["Subnets"][0].startswith("subnet-")


def test_it_runs_with_the_parameters_it_declares(mine: Checkout, target: Target) -> None:
    assert target.endpoint_url
    result = mine.run("run", "mine", "--local", "--follow", "--parameter", "Whom=Bob")
    assert result.exit_code == 0, result.output
    assert "hello Bob" in mine.run("logs", "mine", "latest", "Hello", "--local").output


def test_a_mistake_in_it_is_one_line_of_the_environment_file(mine: Checkout) -> None:
    module = mine.root / "my_pipelines" / "hello.py"
    module.write_text(MODULE.replace('"InstanceCount"', '"InstanceCuont"'))
    try:
        result = mine.run("check")
    finally:
        module.write_text(MODULE)
    assert result.exit_code == 2
    assert (
        'environments/mine.yaml:6: pipeline = "my_pipelines.hello:build": in the definition, Hello.'
        in result.output
    )
    assert "InstanceCuont: unknown field" in result.output


@pytest.mark.nightly
def test_the_command_says_of_everything_that_it_agrees(mine: Checkout, target: Target) -> None:
    result = mine.run("drift", "mine", "--local", "--json")
    assert result.exit_code == 0, result.output
    items = json.loads(result.output)
    assert {each["kind"] for each in items} == {"pipeline", "role", "rule", "schedule", "release"}
    assert {each["agrees"] for each in items} == {True}


def test_a_fresh_deployment_has_not_drifted(look: Callable[[], list[Item]]) -> None:
    assert look() == []


def test_a_pipeline_that_was_updated_by_hand_differs(
    look: Callable[[], list[Item]], target: Target
) -> None:
    client = target.client("sagemaker")
    text = client.describe_pipeline(PipelineName=PIPELINE)["PipelineDefinition"]
    client.update_pipeline(
        PipelineName=PIPELINE, PipelineDefinition=text.replace('"hello"', '"goodbye"')
    )
    (item,) = look()
    client.update_pipeline(PipelineName=PIPELINE, PipelineDefinition=text)
    assert (item.kind, item.name) == ("pipeline", PIPELINE)
    assert re.fullmatch(r"definition sha256 \w{64}, live \w{64}", item.says)
    assert [line[0] + line[1:].strip() for line in item.diff if line[0] in "+-"][2:] == [
        '-"hello",',
        '+"goodbye",',
    ]
    assert look() == []


def _inline(iam: Any, role: str) -> None:
    document = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
    }
    iam.put_role_policy(RoleName=role, PolicyName="more", PolicyDocument=json.dumps(document))


def _attach(iam: Any, role: str) -> None:
    document = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
    }
    arn = iam.create_policy(PolicyName="broad", PolicyDocument=json.dumps(document))["Policy"][
        "Arn"
    ]
    iam.attach_role_policy(RoleName=role, PolicyArn=arn)


def _trust(iam: Any, role: str) -> None:
    document = iam.get_role(RoleName=role)["Role"]["AssumeRolePolicyDocument"]
    document["Statement"][0].pop("Condition")
    iam.update_assume_role_policy(RoleName=role, PolicyDocument=json.dumps(document))


def _weaken(iam: Any, role: str) -> None:
    (name,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    document = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
    document["Statement"][0]["Resource"] = "*"
    iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=json.dumps(document))


@contextmanager
def restored(iam: Any, role: str) -> Iterator[None]:
    """Afterwards the role is again as the deployment made it."""
    before = iam.get_role(RoleName=role)["Role"]
    policies = {
        name: iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        for name in iam.list_role_policies(RoleName=role)["PolicyNames"]
    }
    try:
        yield
    finally:
        _delete(iam, role)
        trust = json.dumps(before["AssumeRolePolicyDocument"])
        more = {key: before[key] for key in ("Description", "MaxSessionDuration") if key in before}
        iam.create_role(RoleName=role, AssumeRolePolicyDocument=trust, **more)
        for name, document in policies.items():
            iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=json.dumps(document))


def _delete(iam: Any, role: str) -> None:
    try:
        for each in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=role, PolicyArn=each["PolicyArn"])
        for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
            iam.delete_role_policy(RoleName=role, PolicyName=name)
        iam.delete_role(RoleName=role)
    except iam.exceptions.NoSuchEntityException:
        pass


@pytest.mark.parametrize(
    ("change", "actor", "line"),
    [
        (_inline, "training", '+    "more": {'),
        (_attach, "evaluation", f'+    "arn:aws:iam::{ACCOUNT}:policy/broad"'),
        (_trust, "endpoint", '-        "Condition": {'),
        (_weaken, "smoke-test", '+            "*"'),
    ],
)
def test_a_role_that_was_changed_by_hand_differs(
    look: Callable[[], list[Item]],
    target: Target,
    names: Names,
    change: Callable[[Any, str], None],
    actor: str,
    line: str,
) -> None:
    iam, role = target.client("iam"), names.role(actor)
    with restored(iam, role):
        change(iam, role)
        (item,) = look()
    assert item.name == role
    assert item.kind == "role"
    assert line in item.diff, "\n".join(item.diff)


def test_a_role_that_is_gone_differs(
    look: Callable[[], list[Item]], target: Target, names: Names
) -> None:
    iam, role = target.client("iam"), names.role("teardown")
    with restored(iam, role):
        _delete(iam, role)
        (item,) = look()
    assert (item.name, item.says) == (role, "in git, and not there")


def test_a_schedule_paused_by_hand_differs_and_says_who_resumes_it(
    look: Callable[[], list[Item]], mine: Checkout, target: Target
) -> None:
    def change(verb: str) -> int:
        return main(["--root", str(mine.root), "schedule", verb, "mine", "nightly", "--local"])

    assert change("pause") == 0
    (item,) = [each for each in look() if each.kind == "schedule"]
    assert change("resume") == 0
    assert (
        "`shoal schedule resume mine nightly` resumes it, run by somebody who may"
        " scheduler:UpdateSchedule on arn:aws" in item.says
    )
    assert {'-  "State": "ENABLED",', '+  "State": "DISABLED",'} <= set(item.diff)


def test_a_schedule_that_git_does_not_have_differs(
    look: Callable[[], list[Item]], target: Target, names: Names
) -> None:
    scheduler = target.client("scheduler")
    known = scheduler.get_schedule(GroupName=names.schedule_group, Name="nightly")
    kept = {
        key: known[key]
        for key in ("ScheduleExpression", "FlexibleTimeWindow", "Target", "GroupName")
    }
    scheduler.create_schedule(Name="secret", **kept)
    (item,) = [each for each in look() if each.kind == "schedule"]
    scheduler.delete_schedule(Name="secret", GroupName=names.schedule_group)
    assert (item.name, item.agrees) == ("secret", False)


def test_a_rule_that_was_disabled_differs(look: Callable[[], list[Item]], target: Target) -> None:
    events = target.client("events")
    (rule,) = [
        each["Name"] for each in events.list_rules()["Rules"] if "TeardownGuard" in each["Name"]
    ]
    events.disable_rule(Name=rule)
    (item,) = [each for each in look() if each.kind == "rule"]
    events.enable_rule(Name=rule)
    assert {'-  "State": "ENABLED",', '+  "State": "DISABLED",'} <= set(item.diff)


def test_the_command_ends_with_1_and_prints_the_differences(
    mine: Checkout, target: Target, names: Names
) -> None:
    iam, role = target.client("iam"), names.role("training")
    with restored(iam, role):
        _inline(iam, role)
        result = mine.run("drift", "mine", "--local")
    assert result.exit_code == 1
    assert f"DIFFERS role {role}" in result.output
    assert '    +    "more": {' in result.output.splitlines()
    assert "shoal: mine is not as git says: role " in result.output


def put(
    target: Target, names: Names, files: dict[str, bytes], manifest: dict[str, Any], folder: str
) -> str:
    s3, bucket = target.client("s3"), names.bucket("data")
    for name, content in files.items():
        s3.put_object(Bucket=bucket, Key=f"datasets/{folder}/{name}", Body=content)
    key = f"datasets/{folder}/manifest.json"
    s3.put_object(Bucket=bucket, Key=key, Body=json.dumps(manifest).encode())
    return f"s3://{bucket}/{key}"


def started_by_manifest(target: Target) -> list[dict[str, Any]]:
    """The executions that manifests started."""
    found = target.client("sagemaker").list_pipeline_executions(PipelineName=PIPELINE)
    return [
        each
        for each in found["PipelineExecutionSummaries"]
        if each["PipelineExecutionDisplayName"].startswith("manifest-")
    ]


@pytest.fixture(scope="module")
def manifest(target: Target, names: Names) -> str:
    """A manifest in the data bucket, whose execution has begun."""
    files = {"train/a": b"1", "test/b": b"2"}
    uri = put(target, names, files, {"files": ["train/a", "test/b"]}, "first")
    assert eventually(lambda: started_by_manifest(target), 60.0)
    return uri


def logged(target: Target) -> str:
    try:
        events = target.client("logs").filter_log_events(
            logGroupName=f"/aws/lambda/{PIPELINE}-start"
        )["events"]
    except target.client("logs").exceptions.ResourceNotFoundException:
        return ""
    return "\n".join(event["message"] for event in events)


def test_a_manifest_starts_an_execution_with_its_uri_under_enforced_policies(
    target: Target, manifest: str
) -> None:
    (execution,) = started_by_manifest(target)
    given = target.client("sagemaker").list_pipeline_parameters_for_execution(
        PipelineExecutionArn=execution["PipelineExecutionArn"]
    )
    assert {"Name": "DataManifest", "Value": manifest} in given["PipelineParameters"]
    assert {"Name": "Whom", "Value": "Ada"} in given["PipelineParameters"]


@pytest.mark.usefixtures("manifest")
def test_the_event_that_came_twice_starts_nothing(target: Target, names: Names) -> None:
    """S3 delivers at least once; here the same event is handed to the function again."""
    assert eventually(
        lambda: (
            not [
                each
                for each in started_by_manifest(target)
                if each["PipelineExecutionStatus"] == "Executing"
            ]
        ),
        60.0,
    )
    bucket, key = names.bucket("data"), "datasets/first/manifest.json"
    found = target.client("s3").head_object(Bucket=bucket, Key=key)
    about = {
        "key": key,
        "size": found["ContentLength"],
        "etag": found["ETag"].strip('"'),
        "version-id": found["VersionId"],
    }
    event = {
        "source": "aws.s3",
        "detail-type": "Object Created",
        "detail": {"bucket": {"name": bucket}, "object": about},
    }
    answer = target.client("lambda").invoke(
        FunctionName=f"{PIPELINE}-start", Payload=json.dumps(event).encode()
    )
    assert json.loads(answer["Payload"].read())["status"] == "duplicate"
    assert len(started_by_manifest(target)) == 1


def test_a_manifest_of_files_that_are_not_there_starts_nothing_and_says_so(
    target: Target, names: Names
) -> None:
    before = started_by_manifest(target)
    uri = put(target, names, {"train/a": b""}, {"files": ["train/a", "test/b"]}, "broken")
    assert eventually(
        lambda: (
            f"ManifestError: {uri} names files that are not there or empty: test/b, train/a"
            in logged(target)
        ),
        30.0,
    ), logged(target)
    assert started_by_manifest(target) == before


def test_another_object_of_the_bucket_starts_nothing(target: Target, names: Names) -> None:
    """What was asked for after it is there, and it is not."""
    target.client("s3").put_object(Bucket=names.bucket("data"), Key="datasets/c/train/c", Body=b"3")
    put(target, names, {}, {"files": ["train/a"]}, "after")
    assert eventually(lambda: "datasets/after/manifest.json names files" in logged(target), 30.0)
    assert "datasets/c/" not in logged(target)


def test_what_cannot_be_delivered_becomes_a_dead_letter(target: Target, names: Names) -> None:
    functions, function = target.client("lambda"), f"{PIPELINE}-start"
    policy = json.loads(functions.get_policy(FunctionName=function)["Policy"])
    statements = [each for each in policy["Statement"] if "events" in each["Principal"]["Service"]]
    for each in statements:
        functions.remove_permission(FunctionName=function, StatementId=each["Sid"])
    put(target, names, {"train/a": b"1"}, {"files": ["train/a"]}, "late")
    sqs = target.client("sqs")
    url = sqs.get_queue_url(QueueName=names.dead_letters("start"))["QueueUrl"]
    (message,) = eventually(lambda: sqs.receive_message(QueueUrl=url).get("Messages", []), 30.0)
    for each in statements:
        functions.add_permission(
            FunctionName=function,
            StatementId=each["Sid"],
            Action=each["Action"],
            Principal=each["Principal"]["Service"],
            SourceArn=each["Condition"]["ArnLike"]["AWS:SourceArn"],
        )
    assert json.loads(message["Body"])["detail"]["object"]["key"] == "datasets/late/manifest.json"


@pytest.mark.usefixtures("target")
def test_the_templates_ask_for_events_only_where_manifests_start_something(mine: Checkout) -> None:
    folder: Path = mine.root / ".shoal" / "cdk" / "mine" / "cdk.out"
    (data,) = [stack for stack in stacks_of(folder, "mine") if stack.name.endswith("-data")]
    told = [
        each["BucketName"]
        for each in data.of_type("AWS::S3::Bucket").values()
        if "NotificationConfiguration" in each
    ]
    assert told == [f"{PIPELINE}-data-{ACCOUNT}-us-east-1"]
