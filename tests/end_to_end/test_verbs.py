"""The verbs one by one against an emulator in the background, and the user's own tools beside
them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shoal.verbs.local_server import port_answers
from shoal.verbs.processes import mentioning
from shoal.verbs.target import Target
from tests.end_to_end.conftest import Checkout

PIPELINE = "shoal-mnist-dev"


@pytest.fixture(scope="module")
def emulator(checkout: Checkout) -> Iterator[dict[str, str]]:
    """A deployed `dev`, with the policies of every role applied; what `local up` tells to
    export.
    """
    started = checkout.run("local", "up", "--enforce-iam")
    assert started.exit_code == 0, started.output
    deployed = checkout.run("deploy", "dev", "--local")
    assert deployed.exit_code == 0, deployed.output
    yield dict(re.findall(r"export (\w+)=(\S+)", started.output))
    checkout.run("local", "down")


def target_of(emulator: dict[str, str]) -> Target:
    """The account of the variables."""
    return Target(
        "111122223333",
        "us-east-1",
        emulator["AWS_ENDPOINT_URL"],
        secret=emulator["AWS_SECRET_ACCESS_KEY"],
    )


@contextmanager
def serving(emulator: dict[str, str]) -> Iterator[None]:
    """An endpoint that a user makes of the newest registered model package."""
    client = target_of(emulator).client("sagemaker")
    name = f"{PIPELINE}-by-hand"
    packages = client.list_model_packages(
        ModelPackageGroupName=PIPELINE, SortBy="CreationTime", SortOrder="Descending"
    )
    package = packages["ModelPackageSummaryList"][0]["ModelPackageArn"]
    container = client.describe_model_package(ModelPackageName=package)["InferenceSpecification"][
        "Containers"
    ][0]
    role = f"arn:aws:iam::111122223333:role/{PIPELINE}-us-east-1-endpoint"
    primary = {key: container[key] for key in ("Image", "ModelDataUrl", "Environment")}
    client.create_model(ModelName=name, ExecutionRoleArn=role, PrimaryContainer=primary)
    variant = {
        "VariantName": "all",
        "ModelName": name,
        "InitialInstanceCount": 1,
        "InstanceType": "ml.m5.xlarge",
    }
    client.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    client.create_endpoint(EndpointName=name, EndpointConfigName=name)
    client.get_waiter("endpoint_in_service").wait(
        EndpointName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    yield
    client.delete_endpoint(EndpointName=name)
    client.delete_endpoint_config(EndpointConfigName=name)
    client.delete_model(ModelName=name)


@contextmanager
def without(emulator: dict[str, str], actor: str, sid: str) -> Iterator[None]:
    """The role of an actor without one of its statements."""
    iam = target_of(emulator).client("iam")
    role = f"{PIPELINE}-us-east-1-{actor}"
    (name,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    policy = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
    kept = [statement for statement in policy["Statement"] if statement["Sid"] != sid]
    assert len(kept) == len(policy["Statement"]) - 1
    iam.put_role_policy(
        RoleName=role, PolicyName=name, PolicyDocument=json.dumps({**policy, "Statement": kept})
    )
    yield
    iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=json.dumps(policy))


def test_the_aws_cli_reads_what_was_deployed(emulator: dict[str, str]) -> None:
    aws = Path(sys.executable).with_name("aws")
    command = [
        str(aws),
        "sagemaker",
        "describe-pipeline",
        "--pipeline-name",
        PIPELINE,
        "--output",
        "json",
    ]
    result = subprocess.run(
        command,
        env={"PATH": os.environ["PATH"], **emulator},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(result.stdout)["PipelineName"] == PIPELINE


def test_a_users_own_boto3_code_sees_the_buckets(emulator: dict[str, str]) -> None:
    program = (
        "import boto3; print([b['Name'] for b in boto3.client('s3').list_buckets()['Buckets']])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": os.environ["PATH"], **emulator},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"{PIPELINE}-data-" in result.stdout


def test_a_second_up_finds_the_running_emulator(
    emulator: dict[str, str], checkout: Checkout
) -> None:
    assert f"running already: {emulator['AWS_ENDPOINT_URL']}" in checkout.run("local", "up").output
    assert checkout.run("local", "status").output.startswith(
        f"running: {emulator['AWS_ENDPOINT_URL']}"
    )


def test_after_a_deployment_there_are_no_differences(
    emulator: dict[str, str], checkout: Checkout
) -> None:
    result = checkout.run("diff", "dev", "--local")
    assert (result.exit_code, "no differences" in result.output) == (0, True), result.output


def test_another_account_than_the_emulators_is_refused(
    emulator: dict[str, str], checkout: Checkout
) -> None:
    result = checkout.run("deploy", "staging", "--local")
    assert (result.exit_code, "the emulator plays account 111122223333" in result.output) == (
        2,
        True,
    )


def test_a_wrong_parameter_starts_nothing(emulator: dict[str, str], checkout: Checkout) -> None:
    result = checkout.run("run", "dev", "--local", "--parameter", "Epoch=3")
    assert (result.exit_code, "it declares: " in result.output) == (2, True)
    assert "has had no executions" in checkout.run("status", "dev", "--local").output


def test_an_execution_without_data_fails_and_is_told_by_run_and_status(
    emulator: dict[str, str], checkout: Checkout
) -> None:
    result = checkout.run("run", "dev", "--local", "--follow")
    assert (result.exit_code, "step Train failed" in result.output) == (1, True), result.output
    assert re.search(
        r"Train +Training +Failed", checkout.run("status", "dev", "latest", "--local").output
    )


def test_an_execution_that_has_ended_is_not_stopped(
    emulator: dict[str, str], checkout: Checkout
) -> None:
    result = checkout.run("stop", "dev", "latest", "--local")
    assert (
        result.exit_code,
        "has ended already as Failed: there is nothing to stop" in result.output,
    ) == (2, True), result.output


def test_a_hyperparameter_that_the_script_would_refuse_starts_nothing(
    emulator: dict[str, str], checkout: Checkout
) -> None:
    result = checkout.run("run", "dev", "--local", "--parameter", "Epochs=0")
    assert (result.exit_code, "'0' is not a number above 0" in result.output) == (2, True)


def test_the_dataset_is_uploaded_once(emulator: dict[str, str], checkout: Checkout) -> None:
    assert "4 of 4 files uploaded" in checkout.run("data", "upload", "dev", "--local").output
    assert "0 of 4 files uploaded" in checkout.run("data", "upload", "dev", "--local").output


@pytest.mark.parametrize(
    ("actor", "sid", "action"),
    [
        ("training", "ReadData", "s3:GetObject"),
        ("training", "UseKey", "kms:Encrypt"),
        ("training", "UseInterfaces", "ec2:CreateNetworkInterfacePermission"),
        ("pipeline", "StartTraining", "sagemaker:CreateTrainingJob"),
    ],
)
def test_without_one_statement_of_a_role_training_fails_and_names_the_action(
    emulator: dict[str, str], checkout: Checkout, actor: str, sid: str, action: str
) -> None:
    with without(emulator, actor, sid):
        result = checkout.run("run", "dev", "--local", "--follow")
    assert (result.exit_code, "AccessDenied" in result.output) == (1, True), result.output
    assert re.findall(r"not authorized to perform: (\S+) on resource", result.output)[0] == action


def test_a_trained_model_can_be_served_and_invoked(
    emulator: dict[str, str], checkout: Checkout
) -> None:
    short = ("--parameter", "Epochs=1", "--parameter", "MinAccuracy=0.5", "--follow")
    trained = checkout.run("run", "dev", "--local", *short)
    assert trained.exit_code == 0, trained.output
    with serving(emulator):
        answer = json.loads(checkout.run("invoke", "dev", "--local", "--digit", "0").output)
    assert (answer["label"], answer["digit"], len(answer["probabilities"])) == (7, 7, 10)


@pytest.mark.parametrize(
    "title",
    ["Training throughput (images/s)", "Duration of steps (ms)", "Endpoint calls", "Loss"],
)
def test_what_was_trained_has_the_metrics_of_the_dashboard(
    emulator: dict[str, str], title: str
) -> None:
    cloudwatch = target_of(emulator).client("cloudwatch")
    body = cloudwatch.get_dashboard(DashboardName=f"{PIPELINE}-us-east-1")["DashboardBody"]
    graphs = {
        each["properties"]["title"]: each["properties"] for each in json.loads(body)["widgets"]
    }
    for metric in graphs[title]["metrics"]:
        if isinstance(metric[0], dict):
            search = re.search(r'{"(.+?)",(\S+)} MetricName="(.+?)"', metric[0]["expression"])
            assert search is not None
            namespace, names, name = search.groups()
            keys = set(names.split(","))
        else:
            namespace, name, *pairs = [part for part in metric if isinstance(part, str)]
            keys = set(pairs[::2])
        metrics = cloudwatch.list_metrics(Namespace=namespace, MetricName=name)["Metrics"]
        assert keys in [{each["Name"] for each in metric["Dimensions"]} for metric in metrics], name


def test_the_dashboard_of_shoal_local_is_read_as_json(checkout: Checkout) -> None:
    result = checkout.run("dashboard", "dev", "--local")
    assert (result.exit_code, "aws cloudwatch get-dashboard" in result.output) == (2, True)


def test_a_sweep_by_hand_says_what_it_would_delete(
    emulator: dict[str, str], checkout: Checkout
) -> None:
    with serving(emulator):
        result = checkout.run("sweep", "dev", "--local", "--dry-run")
    assert (result.exit_code, "would be removed: nothing" in result.output) == (
        0,
        True,
    ), result.output
    assert "endpoints: " in result.output


def test_without_a_running_endpoint_there_is_nothing_to_invoke(
    emulator: dict[str, str], checkout: Checkout
) -> None:
    result = checkout.run("invoke", "dev", "--local", "--digit", "0")
    assert (result.exit_code, "is in service" in result.output) == (2, True)


def cut_off(checkout: Checkout, text: str, number: signal.Signals) -> tuple[int, str]:
    """Exit code and output of a `shoal destroy` that gets a signal when it, or the CDK's CLI below
    it, has said `text`.
    """
    log = checkout.root / ".shoal" / "cdk" / "dev" / "cdk-destroy.log"
    process = checkout.start("destroy", "dev", "--local")
    said: list[str] = []

    def listen(lines: Iterable[str]) -> None:
        for line in lines:
            said.append(line)

    assert process.stdout is not None
    reader = threading.Thread(target=listen, args=(process.stdout,), daemon=True)
    reader.start()
    deadline = time.monotonic() + 240
    while text not in "".join(said) + (log.read_text() if log.exists() else ""):
        assert process.poll() is None, "".join(said)
        assert time.monotonic() < deadline, "".join(said)
        time.sleep(0.02)
    process.send_signal(number)
    code = process.wait(120)
    reader.join(30)
    return code, "".join(said)


def test_destroy_stops_an_execution_and_after_ctrl_c_and_sigkill_it_goes_on_until_nothing_is_left(
    emulator: dict[str, str], checkout: Checkout
) -> None:
    started = checkout.run("run", "dev", "--local")
    assert started.exit_code == 0, started.output
    code, output = cut_off(checkout, "stopping execution", signal.SIGINT)
    assert code == 130, output
    code, output = cut_off(
        checkout, "destroying...", signal.SIGKILL
    )  # the stacks are being deleted
    assert code == -signal.SIGKILL, output
    result = checkout.run("destroy", "dev", "--local")
    assert result.exit_code == 0, result.output
    assert f"nothing named {PIPELINE} is left" in result.output


def test_down_leaves_no_process_and_no_port(emulator: dict[str, str], checkout: Checkout) -> None:
    assert "are gone" in checkout.run("local", "down").output
    assert not port_answers(emulator["AWS_ENDPOINT_URL"])
    assert mentioning(str(checkout.root)) == ()
