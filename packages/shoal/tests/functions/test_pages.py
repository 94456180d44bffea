"""The function that keeps pages, as it is packed; packages/shoal/tests/end_to_end/test_verbs.py
runs it."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.commands import printed
from local_kit.control import Account, eventually, running, unique
from local_kit.tables import rows
from shoal.aws.target import Target
from shoal.constructs.monitoring.page_keeper import packed_files
from shoal.page.page import kept_commit
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.parsing.errors import ConfigError
from shoal.verbs.workspace import Session, Workspace
from shoal_local.testing import root_variables
from tests.functions.invocation import FUNCTIONS, Outcome, invoke
from tests.functions.test_start import PIPELINE, make_pipeline
from tests.repository import ROOT

NEEDED_BY_BOTO3 = {"dateutil", "jmespath", "s3transfer", "six", "urllib3"}
THERE = {*sys.stdlib_module_names, "boto3", "botocore", *NEEDED_BY_BOTO3}
"""Packages that Lambda has."""
LOOK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import boto3
before = {*sys.modules}
import handler
place = handler.own_place()
shown = {name: getattr(place, name) for name in sys.argv[2:]}
shown["metrics"] = {name: vars(each) for name, each in place.metrics.items()}
shown["price"] = vars(place.price_of("ml.c5.xlarge"))
shown["pipeline"], shown["account"] = place.pipeline.name, place.target.account
shown["modules"] = sorted({*sys.modules} - before)
print(json.dumps(shown))
"""
SAME = (
    "environment",
    "workload",
    "strategy",
    "arguments",
    "model_package_group",
    "cleaners",
    "bucket",
    "folder",
)


@pytest.fixture(scope="module")
def environment() -> Any:
    return load_environment("dev", ROOT)


@pytest.fixture(scope="module")
def packed(environment: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    files = packed_files(Names(environment))
    files["handler.py"] = (FUNCTIONS / "pages" / "handler.py").read_bytes()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_what_is_packed_needs_boto3_alone_and_knows_what_a_session_knows(
    packed: Path, environment: Any
) -> None:
    shown = json.loads(printed(sys.executable, "-I", "-c", LOOK, packed, *SAME, cwd=packed))
    target = Target(environment.account, environment.region)
    place = Session(Workspace(ROOT, os.environ), environment, target).place
    assert {name: shown[name] for name in SAME} == {name: getattr(place, name) for name in SAME}
    assert (shown["pipeline"], shown["account"]) == (place.pipeline.name, target.account)
    assert shown["metrics"] == {
        name: each.model_dump(mode="json") for name, each in place.metrics.items()
    }
    price = place.price_of("ml.c5.xlarge")
    assert price is not None
    assert shown["price"] == {**vars(price), "date": str(price.date)}
    modules = {each for each in shown["modules"] if each.split(".")[0] not in THERE}
    files = (each.relative_to(packed).with_suffix("") for each in packed.rglob("*.py"))
    folders = {"shoal.functions", "shoal.functions.seal"}  # without an __init__.py
    assert {".".join(each.parts).removesuffix(".__init__") for each in files} == modules - folders


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory, environment: Any) -> Iterator[Account]:
    """An account with the pipeline, which waits for a file, and the bucket."""
    with running(tmp_path_factory.mktemp("emulator")) as emulator:
        make_pipeline(emulator)
        emulator.client("s3").create_bucket(Bucket=Names(environment).bucket("artifacts"))
        yield emulator


def test_an_execution_that_runs_again_gets_no_page_and_one_that_has_ended_gets_one(
    account: Account, packed: Path, tmp_path: Path
) -> None:
    client, go = account.client("sagemaker"), tmp_path / "go"
    request = {"PipelineName": PIPELINE, "ClientRequestToken": "x" * 32}
    parameters = [{"Name": "Until", "Value": str(go)}]
    started = client.start_pipeline_execution(PipelineParameters=parameters, **request)
    arn = {"PipelineExecutionArn": started["PipelineExecutionArn"]}
    event = {"detail": {"pipelineExecutionArn": started["PipelineExecutionArn"]}}

    def ended() -> bool:
        status = client.describe_pipeline_execution(**arn)["PipelineExecutionStatus"]
        return bool(status == "Succeeded")

    def call() -> Outcome:
        return invoke(packed, event, endpoint_url=account.endpoint, remaining_ms=1)

    assert call().result == {"page": None}
    go.touch()
    assert eventually(ended)
    page, run = call().result["page"], started["PipelineExecutionArn"].rpartition("/")[2]
    assert page.endswith(f"/runs/{run}/run.html")
    bucket = page.split("/")[2]
    kept = account.client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    assert [each["Key"] for each in kept] == [f"runs/{run}/run.html", f"runs/{run}/run.json"]


def test_a_page_that_cannot_be_kept_is_an_error(account: Account, packed: Path) -> None:
    unknown = f"arn:aws:sagemaker:us-east-1:111122223333:pipeline/{PIPELINE}/execution/unknown"
    event = {"detail": {"pipelineExecutionArn": unknown}}
    outcome = invoke(packed, event, endpoint_url=account.endpoint, remaining_ms=1)
    assert outcome.error.startswith("ResourceNotFound"), outcome


@pytest.mark.parametrize(("link", "expected"), rows(__file__, "cases.yaml", "commits"))
def test_the_commit_of_a_page_that_is_there_is_taken_over_for_the_same_code(
    account: Account, environment: Any, link: dict[str, Any] | None, expected: str | None
) -> None:
    secret = root_variables(account.endpoint)["AWS_SECRET_ACCESS_KEY"]
    target = Target(account.number, account.region, account.endpoint, secret)
    place = Session(Workspace(ROOT, os.environ), environment, target).place
    run, code = unique("run"), "s3://assets/code.tar.gz"
    if link:
        lineage = [{"what": "commit", **link}, {"what": "code", "value": code, "holds": True}]
        body = json.dumps({"lineage": lineage})
        key = f"{place.folder}/{run}/run.json"
        account.client("s3").put_object(Bucket=place.bucket, Key=key, Body=body)
    assert kept_commit(place, run, code) == expected
    assert kept_commit(place, run, "s3://assets/other.tar.gz") is None
    with pytest.raises(ClientError, match="NoSuchBucket"):
        kept_commit(replace(place, bucket="no-such-bucket"), run, code)


def test_without_the_library_that_draws_curves_nothing_is_synthesised(
    environment: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"uPlot\.iife.min\.js: is missing.*; run `make install`"):
        packed_files(Names(environment), [tmp_path])
