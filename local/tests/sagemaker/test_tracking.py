"""MLflow's tracking servers: what is refused; local/tests/clients/test_mlflow.py runs one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml
from botocore.exceptions import ClientError

from local.tests.clients.outcomes import ROOT
from local.tests.sagemaker.account import BUCKET, Account
from local.tests.sagemaker.test_store import Core
from shoal_local.control import mlflow
from shoal_local.control.authorization.rules import rules_of
from shoal_local.errors import AwsError
from shoal_local.sagemaker.store import Store
from shoal_local.sagemaker.tracking import servers


def create(account: Account, **more: Any) -> None:
    request = {"TrackingServerName": "runs", "RoleArn": account.role}
    store = {"ArtifactStoreUri": f"s3://{BUCKET}/mlflow"}
    account.sagemaker.create_mlflow_tracking_server(**request | store | more)


def test_without_mlflow_a_tracking_server_is_refused_with_what_to_install(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "installed_version", lambda: None)
    with pytest.raises(ClientError, match=r"pip install 'shoal-local\[mlflow\]'"):
        create(account)
    assert account.sagemaker.list_mlflow_tracking_servers()["TrackingServerSummaries"] == []


def test_without_namespaces_a_tracking_server_is_refused(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "isolation_refused", lambda: "the test does not want them")
    monkeypatch.setattr(servers, "installed_version", lambda: "3.17.2")
    with pytest.raises(ClientError, match="namespaces are refused"):
        create(account)


@pytest.mark.parametrize(
    ("request_part", "words"),
    [
        ({"AutomaticModelRegistration": True}, "does not emulate AutomaticModelRegistration"),
        ({"S3BucketOwnerAccountId": "444455556666"}, "does not emulate S3BucketOwnerAccountId"),
        ({"ArtifactStoreUri": "https://bucket/x"}, "that does not begin with s3://"),
        ({"RoleArn": "arn:aws:iam::123456789012:role/nobody"}, "Could not assume role"),
    ],
    ids=["registration", "owner", "store", "role"],
)
def test_what_a_tracking_server_cannot_be_is_refused_before_it_starts(
    account: Account,
    monkeypatch: pytest.MonkeyPatch,
    request_part: dict[str, Any],
    words: str,
) -> None:
    monkeypatch.setattr(servers, "installed_version", lambda: "3.17.2")
    with pytest.raises(ClientError, match=words):
        create(account, **request_part)


def test_a_server_that_there_is_not_is_not_found_by_its_clients_either(account: Account) -> None:
    arn = f"arn:aws:sagemaker:us-east-1:{account.number}:mlflow-tracking-server/runs"
    with pytest.raises(account.sagemaker.exceptions.ResourceNotFound):
        account.sagemaker.describe_mlflow_tracking_server(TrackingServerName="runs")
    path, header = "/api/2.0/mlflow/runs/get?run_id=1", {"x-mlflow-sm-tracking-server-arn": arn}
    headers = account.signed("GET", path, mlflow.SERVICE, headers=header)
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(f"{account.endpoint}{path}", headers=headers))
    assert (refused.value.code, refused.value.read()) == (
        404,
        b"Tracking server could not be found",
    )


def test_a_server_answers_to_its_own_arn_only(tmp_path: Path) -> None:
    """IAM was asked about the ARN's text: another spelling is another resource."""
    own = "arn:aws:sagemaker:us-east-1:111122223333:mlflow-tracking-server/runs"
    document = {"_name": "runs", "TrackingServerArn": own, "TrackingServerStatus": "Stopped"}
    store = Store(tmp_path)
    store.create(servers.KIND, "runs", document, ValueError)
    tracking = servers.TrackingServers(Core(store))  # type: ignore[arg-type]
    with pytest.raises(AwsError, match="is Stopped"):
        tracking.call(own, "GET", "/api/2.0/mlflow/runs/get", b"", {})
    for other in (own.replace("runs", "RUNS"), own.replace("us-east-1", "eu-west-1"), "runs"):
        assert tracking.call(other, "GET", "/api/2.0/mlflow/runs/get", b"", {})[0] == 404


def test_each_request_of_mlflows_api_has_the_action_that_aws_documents() -> None:
    table = yaml.safe_load(mlflow._ACTIONS.read_text())
    actions = {action for methods in table.values() for action in methods.values()}
    assert actions == rules_of(mlflow.SERVICE).keys()
    requests = [("POST", "runs/log-batch"), ("GET", "logged-models/m-1"), ("GET", "gateway/x")]
    assert [mlflow.action_of(method, f"/api/2.0/mlflow/{path}") for method, path in requests] == [
        "LogBatch",
        "GetLoggedModel",
        "",
    ]


def test_each_action_of_the_guides_policy_for_an_export_is_one_that_aws_documents() -> None:
    guide = (ROOT / "docs" / "guides" / "runs.md").read_text()
    (policy,) = (json.loads(each) for each in re.findall(r"```json\n(.+?)```", guide, re.DOTALL))
    actions, puts = (statement["Action"] for statement in policy["Statement"])
    names = {action.removeprefix(f"{mlflow.SERVICE}:") for action in actions}
    assert names <= rules_of(mlflow.SERVICE).keys()
    assert puts == "s3:PutObject"
