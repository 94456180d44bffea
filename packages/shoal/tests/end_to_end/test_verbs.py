"""The verbs one by one against an emulator in the background, and the user's own tools beside
them.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from local_kit.control import eventually
from shoal.aws.target import Target
from tests.cli.trained import document_in
from tests.end_to_end.conftest import Checkout, Finished
from tests.repository import ROOT
from tests.training_code.training import write_subset

PIPELINE = "shoal-mnist-dev"
DATA, ARTIFACTS = (f"{PIPELINE}-{use}-111122223333-us-east-1" for use in ("data", "artifacts"))
GRAPHS = ("Images per second (images/s)", "Duration of steps (s)", "Endpoint calls", "Loss")
SCHEMA = json.loads((ROOT / "packages/shoal/src/shoal/page/run.schema.json").read_text())


@pytest.fixture(scope="module")
def emulator(checkout: Checkout) -> Iterator[dict[str, str]]:
    """A deployed `dev`; what `local up` tells to export."""
    with checkout.emulator("dev") as started:
        assert checkout.document("deploy", "dev", "--local")["pipelines"] == [PIPELINE]
        yield dict(re.findall(r"export (\w+)=(\S+)", started))


@pytest.fixture(scope="module")
def failed(emulator: dict[str, str], checkout: Checkout) -> Finished:
    """The first execution, whose channels have one file each, and not the dataset's."""
    refused = checkout.run("run", "dev", "--local", "--follow")
    assert (refused.exit_code, "`shoal data upload dev --local`" in refused.output) == (2, True)
    client = target_of(emulator).client("s3")
    keys = [f"datasets/mnist/{channel}/of-nobody.txt" for channel in ("train", "test")]
    for key in keys:
        client.put_object(Bucket=DATA, Key=key, Body=b"-")
    finished = checkout.run("run", "dev", "--local", "--follow")
    for key in keys:
        client.delete_object(Bucket=DATA, Key=key)
    return finished


@pytest.fixture(scope="module")
def uploads(failed: Finished, checkout: Checkout) -> tuple[Finished, Finished]:
    """The dataset, uploaded twice."""
    assert failed
    words = ("data", "upload", "dev", "--local", "--json")
    first, second = (checkout.run(*words) for _ in range(2))
    return first, second


@pytest.fixture(scope="module")
def fewer_digits(
    uploads: tuple[Finished, Finished],
    emulator: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    """Upload the first 16,000 training digits, after the dataset; return their URI."""
    assert [document_in(each.output)["uploaded"] for each in uploads] == [4, 0]
    folder, place = tmp_path_factory.mktemp("digits"), "datasets/mnist.fewer/train"
    write_subset(folder, train=16_000, test=1)
    client = target_of(emulator).client("s3")
    for file in (folder / "train").iterdir():
        client.upload_file(str(file), DATA, f"{place}/{file.name}")
    return f"s3://{DATA}/{place}/"


@pytest.fixture(scope="module")
def trained(fewer_digits: str, checkout: Checkout) -> Finished:
    """An execution that ends well."""
    given = ("Epochs=1", "MinAccuracy=0.5", f"TrainDataUri={fewer_digits}")
    short = [word for each in given for word in ("--parameter", each)]
    finished = checkout.run("run", "dev", "--local", *short, "--follow")
    assert finished.exit_code == 0, finished.output
    return finished


def run_id(followed: Finished) -> str:
    """Return the id of the execution that `shoal run --follow` started."""
    started = re.search(r"^started: \S+/(\w+)$", followed.output, re.MULTILINE)
    assert started, followed.output
    return started[1]


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
    try:
        client.get_waiter("endpoint_in_service").wait(
            EndpointName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )
        yield
    finally:
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
    try:
        yield
    finally:
        iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=json.dumps(policy))


def run_json(checkout: Checkout, run: str, folder: Path) -> dict[str, Any]:
    """Return what `shoal report` writes of a run, which has the form that it says."""
    file = folder / "run.json"
    reported = checkout.document("report", "dev", run, "--local", "--output", str(file))
    record: dict[str, Any] = json.loads(file.read_text())
    assert (reported["run"], reported["verdict"]) == (run, record["verdict"])
    jsonschema.validate(record, SCHEMA)
    return record


def test_the_report_of_a_run_has_its_measurements_costs_and_origin(
    emulator: dict[str, str], trained: Finished, checkout: Checkout, tmp_path: Path
) -> None:
    record = run_json(checkout, run_id(trained), tmp_path)
    assert record["verdict"]["outcome"] == "Succeeded"
    assert {step["status"] for step in record["steps"]} == {"Succeeded", "NotStarted"}
    links = {each["what"]: each["holds"] for each in record["lineage"]}
    assert [what for what in links if links[what] is None] == ["commit", "image", "data"]  # no git
    assert [*links.values()].count(True) == 6
    assert all(each["gone"] for each in record["made"])
    assert [gate["passed"] for gate in record["gates"]] == [True]
    assert record["money"]["usd_per_hour_now"] == 0
    hours = {each["step"]: each["seconds"] / 3600 for each in record["money"]["items"]}
    assert hours.keys() == {"Train", "Evaluate", "CreateEndpoint"}
    losses = next(each for each in record["curves"] if each["name"] == "train:loss")
    assert len(losses["points"]) > 2
    assert record["unread"] == []


def test_the_report_of_a_failed_run_quotes_the_line_that_says_why(
    failed: Finished, trained: Finished, checkout: Checkout, tmp_path: Path
) -> None:
    good, bad = run_id(trained), run_id(failed)
    (listed,) = checkout.document("status", "dev", "--local")["executions"].values()
    status = {each["run"]: each["status"] for each in listed}
    assert (status[good], status[bad]) == ("Succeeded", "Failed")
    assert {*listed[0]} == {"run", "name", "status", "started_at"}  # one request for all
    assert f"{len(listed) - 1} older" in checkout.succeed("status", "dev", "--local", "--limit=1")
    assert checkout.run("status", "dev", bad, "--local", "--follow").exit_code == 1
    shown = checkout.run("status", "dev", "--local", "--results").output
    assert all(each in shown for each in status), shown
    heads, *_ = shown.splitlines()
    assert {"gate", "Epochs", "MinAccuracy", "TrainDataUri"} <= {*heads.split()}
    assert "TestDataUri" not in heads  # the same in both
    (line,) = (each for each in shown.splitlines() if good in each)
    assert re.search(r" passed +1 ", line), shown
    verdict = run_json(checkout, bad, tmp_path)["verdict"]
    assert (verdict["step"], verdict["host"]) == ("Train", "algo-1"), failed.output
    assert verdict["next"] == f"shoal logs dev --local {bad} Train"
    assert " does not exist; the folder holds of-nobody.txt" in verdict["line"]


def test_who_follows_an_ended_run_sees_its_end(trained: Finished, checkout: Checkout) -> None:
    watched = checkout.succeed("status", "dev", run_id(trained), "--local", "--follow", "--json")
    assert "step Train (Training): Succeeded" in watched
    document = document_in(watched)
    assert (document["run"]["status"], document["verdict"]["outcome"]) == ("Succeeded", "Succeeded")
    assert document["page"].endswith("/run.html")


def page_data(s3: Any, run: str) -> dict[str, Any]:
    """Return the data that is kept beside the page of a run."""
    kept = s3.get_object(Bucket=ARTIFACTS, Key=f"runs/{run}/run.json")["Body"]
    return dict(json.load(kept))


def test_a_run_nobody_follows_leaves_its_page(emulator: dict[str, str], checkout: Checkout) -> None:
    arn = checkout.document("run", "dev", "--local")["execution"]
    run = arn.rpartition("/")[2]
    assert checkout.document("stop", "dev", run, "--local")["execution"] == arn
    s3 = target_of(emulator).client("s3")

    def kept() -> set[str]:
        listed = s3.list_objects_v2(Bucket=ARTIFACTS, Prefix=f"runs/{run}/").get("Contents", ())
        return {each["Key"].rpartition("/")[2] for each in listed}

    assert eventually(lambda: kept() == {"run.html", "run.json"}, 120)
    page = s3.get_object(Bucket=ARTIFACTS, Key=f"runs/{run}/run.html")
    assert page["ContentType"] == "text/html; charset=utf-8"
    data = page_data(s3, run)
    assert (data["run"]["status"], data["run"]["is_local"], data["unread"]) == ("Stopped", True, [])
    assert data["verdict"]["next"].startswith("shoal status dev --local")
    assert f'"id":"{run}"' in page["Body"].read().decode()


def test_what_makes_pages_may_read_all_of_a_run_that_succeeded(
    trained: Finished, emulator: dict[str, str]
) -> None:
    target, run = target_of(emulator), run_id(trained)
    for name in ("run.json", "run.html"):
        target.client("s3").delete_object(Bucket=ARTIFACTS, Key=f"runs/{run}/{name}")
    arn = f"arn:aws:sagemaker:us-east-1:111122223333:pipeline/{PIPELINE}/execution/{run}"
    event = {"detail": {"pipelineExecutionArn": arn}}
    answer = target.client("lambda").invoke(
        FunctionName=f"{PIPELINE}-pages", Payload=json.dumps(event)
    )
    assert json.load(answer["Payload"]) == {"page": f"s3://{ARTIFACTS}/runs/{run}/run.html"}
    data = page_data(target.client("s3"), run)
    assert data["unread"] == []
    assert all(data[part] for part in ("curves", "metrics", "package", "gates", "made", "logs"))
    assert data["money"]["usd"] > 0
    assert {each["what"]: each["value"] for each in data["lineage"]}["commit"] == "not known"


def test_a_failed_run_says_that_the_teardown_function_looked(
    failed: Finished, checkout: Checkout, tmp_path: Path
) -> None:
    def cleanups() -> list[tuple[str, str]]:
        found = run_json(checkout, run_id(failed), tmp_path)["cleanups"]
        return [(each["by"], each["text"]) for each in found]

    assert eventually(lambda: ("teardown", "nothing left, deleted nothing") in cleanups(), 60)


def test_the_status_of_a_run_says_its_gates_version_and_what_to_do_next(
    trained: Finished, checkout: Checkout
) -> None:
    status = checkout.run("status", "dev", run_id(trained), "--local").output
    gate = re.compile(r"gate: accuracy 0\.\d+, must be at least 0.5$", re.MULTILINE)
    for output in (trained.output, status):
        assert gate.search(output), output
        assert (
            "version 1 is PendingManualApproval\nnext:\n  shoal release approve dev --local 1\n"
            in output
        )


def test_an_execution_that_fails_is_told_by_run_and_status_and_not_stopped(
    failed: Finished, trained: Finished, checkout: Checkout
) -> None:
    assert (failed.exit_code, "step Train failed" in failed.output) == (1, True), failed.output
    status = checkout.run("status", "dev", run_id(failed), "--local").output
    assert re.search(r"Train +Training +Failed", status), status
    one = checkout.document("status", "dev", run_id(failed), "--local")
    assert (one["run"]["id"], one["verdict"]["step"]) == (run_id(failed), "Train")
    stopped = checkout.run("stop", "dev", run_id(failed), "--local")
    assert stopped.exit_code == 2, stopped.output
    assert "has ended already as Failed: there is nothing to stop" in stopped.output


def test_a_page_is_kept_of_who_follows_and_shows_the_run_before(
    failed: Finished, trained: Finished, checkout: Checkout, tmp_path: Path
) -> None:
    for followed in (trained, failed):  # S3 has taken the page before the line is printed
        assert f"page: s3://{ARTIFACTS}/runs/{run_id(followed)}/run.html" in followed.output
    file = tmp_path / "run.html"
    finished = checkout.run("report", "dev", run_id(trained), "--local", "-o", str(file))
    assert (finished.exit_code, finished.output.count("Succeeded")) == (0, 1), finished.output
    text = file.read_text()
    assert len(text) < 400_000
    data = re.search(r'<script type="application/json" id="run">(.*?)</script>', text, re.DOTALL)
    assert data
    (other,) = json.loads(data[1])["others"]
    assert (other["label"], other["status"]) == ("the run before", "Failed")


@pytest.mark.nightly
def test_an_edit_is_shown_with_the_command_that_deploys_it(
    emulator: dict[str, str], checkout: Checkout
) -> None:
    """A deployment leaves no differences."""
    same = checkout.run("diff", "dev", "--local")
    assert (same.exit_code, "no differences" in same.output) == (0, True), same.output
    file = checkout.root / "environments" / "dev.yaml"
    before = file.read_text()
    file.write_text(before.replace("epochs: 2", "epochs: 3"))
    try:
        result = checkout.run("diff", "dev", "--local")
        checkout.succeed("deploy", "dev", "--local")
    finally:
        file.write_text(before)
    assert result.exit_code == 1
    assert "Number of stacks with differences: " in result.output
    assert "`shoal deploy dev --local` changes that" in result.output
    described = target_of(emulator).client("sagemaker").describe_pipeline(PipelineName=PIPELINE)
    parameters = json.loads(described["PipelineDefinition"])["Parameters"]
    assert {"Name": "Epochs", "Type": "Integer", "DefaultValue": 3} in parameters


@pytest.mark.usefixtures("uploads")
@pytest.mark.parametrize(
    ("actor", "sid", "action"),
    [
        ("training", "ReadData", "s3:GetObject"),
        pytest.param("training", "UseKey", "kms:Encrypt", marks=pytest.mark.nightly),
        pytest.param(
            "training",
            "UseInterfaces",
            "ec2:CreateNetworkInterfacePermission",
            marks=pytest.mark.nightly,
        ),
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


@pytest.mark.usefixtures("trained")
def test_a_trained_model_can_be_served_and_a_sweep_says_what_it_would_delete(
    emulator: dict[str, str], checkout: Checkout
) -> None:
    seven = str(ROOT / "training_code" / "mnist" / "smoke_test" / "7.json")
    with serving(emulator):
        answers = [
            json.loads("".join(checkout.document("invoke", "dev", "--local", *body)["parts"]))
            for body in ((), ("--body", seven))
        ]
        words = ("destroy", "dev", "--local", "--leftovers", "--dry-run")
        (swept,) = checkout.document(*words)["leftovers"].values()
    assert [each["predictions"][0]["digit"] for each in answers] == [0, 7]
    assert (swept["dry_run"], swept["past_ttl"]) == (True, [])


@pytest.mark.usefixtures("trained")
def test_training_has_the_dashboards_metrics(emulator: dict[str, str]) -> None:
    cloudwatch = target_of(emulator).client("cloudwatch")
    body = cloudwatch.get_dashboard(DashboardName=f"{PIPELINE}-us-east-1")["DashboardBody"]
    graphs = {
        each["properties"].get("title"): each["properties"] for each in json.loads(body)["widgets"]
    }
    for title in GRAPHS:
        for namespace, name, keys in map(metric_of, graphs[title]["metrics"]):
            if name:
                metrics = cloudwatch.list_metrics(Namespace=namespace, MetricName=name)["Metrics"]
                has = [{each["Name"] for each in metric["Dimensions"]} for metric in metrics]
                assert keys in has, name


def metric_of(row: list[Any]) -> tuple[str, str, set[str]]:
    """Return namespace, name and dimensions; no name where it divides a metric before it."""
    if not isinstance(row[0], dict):
        namespace, name, *pairs = [part for part in row if isinstance(part, str)]
        return namespace, name, set(pairs[::2])
    search = re.search(r'SEARCH.*?{"(.+?)",(\S+)} MetricName="(.+?)"', row[0]["expression"])
    if not search:
        return "", "", set()
    namespace, names, name = search.groups()
    return namespace, name, set(names.split(","))
