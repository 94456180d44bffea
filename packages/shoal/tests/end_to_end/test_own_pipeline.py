"""An environment whose pipeline is a user's own function, or has steps of docs/own-pipeline.md,
deployed with the real CLI: it runs, and a manifest starts it.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import eventually
from shoal.aws.target import Target
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from tests.docs.test_pages import ASKED, CHECKED, SCORED
from tests.end_to_end.conftest import Checkout, environment_text
from tests.repository import ROOT

ACCOUNT = "111122223333"
PIPELINE = "shoal-mnist-mine"
MODULE = """
from shoal.launch import resolve


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
    own = checkout.with_environment(tmp_path_factory.mktemp("mine"), "mine")
    (own.root / "my_pipelines").mkdir()
    (own.root / "my_pipelines" / "hello.py").write_text(MODULE)
    with own.emulator("mine"):
        own.succeed("deploy", "mine", "--local")
        yield own


@pytest.fixture(scope="module")
def target(mine: Checkout) -> Target:
    return mine.local_target


@pytest.fixture(scope="module")
def names(mine: Checkout) -> Names:
    return Names(load_environment("mine", mine.root))


def test_what_is_deployed_is_the_functions_definition_and_who_is_mailed(target: Target) -> None:
    described = target.client("sagemaker").describe_pipeline(PipelineName=PIPELINE)
    (step,) = json.loads(described["PipelineDefinition"])["Steps"]
    assert step["Name"] == "Hello"
    assert step["Arguments"]["NetworkConfig"]["VpcConfig"]["Subnets"][0].startswith("subnet-")
    (budget,) = target.client("budgets").describe_budgets(AccountId=ACCOUNT)["Budgets"]
    assert (budget["BudgetName"], float(budget["BudgetLimit"]["Amount"])) == (PIPELINE, 500)
    told = {each["Endpoint"] for each in target.client("sns").list_subscriptions()["Subscriptions"]}
    assert {"team@example.com", "boss@example.com"} <= told


def test_it_runs_with_the_parameters_it_declares(mine: Checkout) -> None:
    mine.succeed("run", "mine", "--local", "--follow", "--parameter", "Whom=Bob")
    assert "hello Bob" in mine.succeed("logs", "mine", "latest", "Hello", "--local")


def started_by_manifest(target: Target) -> list[dict[str, Any]]:
    """The executions that manifests started."""
    found = target.client("sagemaker").list_pipeline_executions(PipelineName=PIPELINE)
    return [
        each
        for each in found["PipelineExecutionSummaries"]
        if each["PipelineExecutionDisplayName"].startswith("manifest-")
    ]


def test_a_manifest_starts_one_execution_with_its_uri(target: Target, names: Names) -> None:
    """S3 delivers at least once; here the same event is handed to the function again. What cannot
    be delivered becomes a dead letter.
    """
    s3, bucket = target.client("s3"), names.bucket("data")
    for name in ("train/a", "test/b"):
        s3.put_object(Bucket=bucket, Key=f"datasets/first/{name}", Body=name.encode())
    key = "datasets/first/manifest.json"
    s3.put_object(Bucket=bucket, Key=key, Body=json.dumps({"files": ["train/a", "test/b"]}))
    (execution,) = eventually(lambda: started_by_manifest(target), 60.0)
    given = target.client("sagemaker").list_pipeline_parameters_for_execution(
        PipelineExecutionArn=execution["PipelineExecutionArn"]
    )
    assert {"Name": "DataManifest", "Value": f"s3://{bucket}/{key}"} in given["PipelineParameters"]
    assert {"Name": "Whom", "Value": "Ada"} in given["PipelineParameters"]

    def has_ended() -> bool:
        (execution,) = started_by_manifest(target)
        return bool(execution["PipelineExecutionStatus"] != "Executing")

    assert eventually(has_ended, 60.0)
    found = s3.head_object(Bucket=bucket, Key=key)
    about = {
        "key": key,
        "size": found["ContentLength"],
        "etag": found["ETag"].strip('"'),
        "version-id": found["VersionId"],
    }
    detail = {"bucket": {"name": bucket}, "object": about}
    event = {"source": "aws.s3", "detail-type": "Object Created", "detail": detail}
    functions, function = target.client("lambda"), f"{PIPELINE}-start"
    answer = functions.invoke(FunctionName=function, Payload=json.dumps(event).encode())
    assert json.loads(answer["Payload"].read())["status"] == "duplicate"
    assert len(started_by_manifest(target)) == 1

    policy = json.loads(functions.get_policy(FunctionName=function)["Policy"])
    for each in policy["Statement"]:
        functions.remove_permission(FunctionName=function, StatementId=each["Sid"])
    s3.put_object(Bucket=bucket, Key="datasets/late/manifest.json", Body=b"{}")
    sqs = target.client("sqs")
    queue = sqs.get_queue_url(QueueName=names.dead_letters("start"))["QueueUrl"]
    (letter,) = eventually(lambda: sqs.receive_message(QueueUrl=queue).get("Messages"), 30.0)
    assert json.loads(letter["Body"])["detail"]["object"]["key"] == "datasets/late/manifest.json"


def test_the_templates_ask_for_events_only_where_manifests_start_something(mine: Checkout) -> None:
    folder: Path = mine.root / ".shoal" / "cdk" / "mine" / "cdk.out"
    (template,) = (folder / "assembly-mine").glob("minedata*.template.json")
    resources = json.loads(template.read_text())["Resources"].values()
    properties = [each.get("Properties", {}) for each in resources]
    told = [each["BucketName"] for each in properties if "NotificationConfiguration" in each]
    assert told == [f"{PIPELINE}-data-{ACCOUNT}-us-east-1"]


PRICES = (
    environment_text("prices")
    .replace("ml.m5.xlarge,", "ml.m5.xlarge, source_dir: my_code,")
    .replace("workload: prices\n", "workload: prices\npipeline: my_pipelines.prices:build\n")
)
STEPS = """
from dataclasses import replace

from my_pipelines import asked, checked, scored


def build(environment, infrastructure, launch):
    given = environment, infrastructure, launch
    check, train, *_ = checked.build(*given).steps
    ask = asked.build(*given).step("Ask")
    pipeline = scored.build(*given)
    _, evaluate, gate = pipeline.steps
    seal, register, *hosting = gate.if_true
    register = replace(register, depends_on=("Ask",))
    gate = replace(gate, if_true=(seal, ask, register, *hosting))
    return replace(pipeline, steps=(check, train, evaluate, gate))
"""
CHECK = """
import pathlib, sys

lines = pathlib.Path(sys.argv[1], "trips.csv").read_text().splitlines()
print(f"{len(lines) - 1} rows")
sys.exit(len(lines) < 1000)
"""
ROWS = b"50,15,800\n5,2,100\n"
"""A long trip, and a short one."""


@pytest.fixture
def stepped(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    own = checkout.with_environment(tmp_path_factory.mktemp("steps"), "prices", PRICES)
    shutil.copytree(ROOT / "training_code" / "prices" / "pytorch", own.root / "my_code")
    (own.root / "my_code" / "check_data.py").write_text(CHECK)
    (own.root / "my_pipelines").mkdir()
    modules = {"prices": STEPS, "asked": ASKED, "checked": CHECKED, "scored": SCORED}
    for name, text in modules.items():
        (own.root / "my_pipelines" / f"{name}.py").write_text(text)
    with own.emulator("prices"):
        yield own


def question(target: Target, queue: str) -> dict[str, Any]:
    """Return the message of the step Ask, once it is there."""
    sqs = target.client("sqs")
    messages = eventually(
        lambda: sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5).get("Messages"), 240.0
    )
    return dict(json.loads(messages[0]["Body"]))


@pytest.mark.nightly
def test_data_are_checked_somebody_is_asked_and_a_dataset_is_scored(stepped: Checkout) -> None:
    stepped.succeed("deploy", "prices", "--local")
    stepped.succeed("data", "upload", "prices", "--local")
    names, target = Names(load_environment("prices", stepped.root)), stepped.local_target
    s3, queues = target.client("s3"), target.client("sqs")
    queue = queues.create_queue(QueueName="releases")["QueueUrl"]
    key = f"datasets/{names.environment.data.dataset}/score/new.csv"
    s3.put_object(Bucket=names.bucket("data"), Key=key, Body=ROWS)

    with stepped.running("run", "prices", "--local", "--follow") as running:
        asked = question(target, queue)
        target.client("sagemaker").send_pipeline_execution_step_success(
            CallbackToken=asked["token"], OutputParameters=[{"Name": "answered_by", "Value": "Ada"}]
        )
        output, _ = running.communicate(timeout=240)
    assert running.returncode == 0, output

    assert "2000 rows" in stepped.succeed("logs", "prices", "latest", "CheckData", "--local")
    assert stepped.succeed("logs", "prices", "latest", "Score", "--local")
    execution = asked["arguments"]["execution_id"]
    result = f"transform/{execution}/new.csv.out"
    scored = s3.get_object(Bucket=names.bucket("artifacts"), Key=result)["Body"].read()
    minutes = [float(line) for line in scored.split()]
    assert len(minutes) == 2
    assert minutes[0] > minutes[1] > 0
    assert target.client("sagemaker").list_models()["Models"] == []
