"""Numbers of a training: read from log lines, and told in MLflow's terms, without MLflow;
packages/shoal/tests/end_to_end/test_mlflow.py has a real server.
"""

import os
import sys
from dataclasses import replace
from typing import Any

import pytest

from local_kit.tables import rows, table
from shoal.aws.metrics import (
    Parts,
    Position,
    Progress,
    Reading,
    parse,
    progress_metrics,
    trained_text,
)
from shoal.aws.target import Target
from shoal.errors import ToolMissingError, UsageError
from shoal.page.lineage import NOT_KNOWN
from shoal.settings.loading.loader import load_environment
from shoal.settings.sections.evaluation import Metric
from shoal.verbs import mlflow_export
from shoal.verbs.mlflow_export import Mlflow, connected, metrics_of, status_of, tags_of
from shoal.verbs.workspace import Session, Workspace
from tests.repository import ROOT

SERVER = "arn:aws:sagemaker:us-east-1:111122223333:mlflow-tracking-server/runs"
BEGAN_MS = 1_795_489_200_000


def record(**changes: Any) -> dict[str, Any]:
    """Return run.json of a run that succeeded, as far as MLflow gets to see it."""
    found: dict[str, Any] = table(__file__, "cases.yaml")["mlflow_run"]
    return found | changes


def test_curves_keep_steps_and_times_and_each_further_host_has_its_own() -> None:
    assert [*metrics_of(record())][:3] == [
        ("train:loss", 0.5, BEGAN_MS + 10_000, 1),
        ("train:loss", 0.25, BEGAN_MS + 20_500, 2),
        ("train:loss/algo-2", 0.6, BEGAN_MS + 11_000, 1),
    ]


def test_rank_0_has_the_name_and_each_further_rank_its_own() -> None:
    (curve, _) = record()["curves"]
    lanes = [(0, "algo-2", 0.5), (1, "algo-2", 0.6), (2, "algo-1", 0.7), (None, "algo-2", 0.8)]
    curves = [
        {**curve, "rank": rank, "host": host, "points": [[1.0, loss, 10.0]]}
        for rank, host, loss in lanes
    ]
    found = metrics_of(record(curves=curves, run=record()["run"] | {"ended_at": None}))
    assert {name: value for name, value, *_ in found} == {
        "train:loss": 0.5,
        "train:loss/rank-1": 0.6,
        "train:loss/rank-2": 0.7,
        "train:loss/algo-2": 0.8,
    }


def test_measurements_of_the_whole_run_come_when_it_has_ended() -> None:
    run = record()["run"]
    ended, running = (
        [*metrics_of(record(run=run | changes))]
        for changes in ({}, {"status": "Executing", "ended_at": None})
    )
    results = {name: value for name, value, *_ in ended if ":" not in name}
    assert results == {"evaluation/accuracy": 0.99, "seconds": 50.0, "usd": 0.5}
    assert {name for name, *_ in running} == {"train:loss", "train:loss/algo-2"}


def test_tags_say_where_the_run_and_its_model_come_from() -> None:
    assert tags_of(record()) == table(__file__, "cases.yaml")["tags"]


def test_a_commit_that_is_not_known_is_no_source_version() -> None:
    tags = tags_of(record(lineage=[{"what": "commit", "value": NOT_KNOWN, "holds": None}]))
    assert "mlflow.source.git.commit" not in tags


def test_statuses_are_mlflows() -> None:
    for ours, theirs in table(__file__, "cases.yaml")["statuses"].items():
        assert status_of(record(run=record()["run"] | {"status": ours})) == theirs


def test_names_have_only_characters_that_mlflow_takes() -> None:
    gates = [{"metric": "top-1 (%)", "value": None, "limit": "at least 1", "passed": None}]
    tags = tags_of(record(gates=gates))
    assert tags["shoal.gate.top-1 ___"] == "not measured: None, at least 1"


@pytest.mark.parametrize(
    ("uri", "package"), [("http://localhost:5000", "mlflow-skinny"), (SERVER, "sagemaker-mlflow")]
)
def test_a_missing_client_is_named(uri: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("mlflow", "sagemaker_mlflow"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ToolMissingError, match=f"run `.venv/bin/pip install {package}`"):
        Mlflow(uri)


def test_an_error_names_the_server_without_user_and_password() -> None:
    client = object.__new__(Mlflow)
    client._uri = "http://somebody:p@ss@127.0.0.1:5000/sub"
    error = ValueError(f"API request to {client._uri}/api/2.0/mlflow/x failed")
    server = "http://127.0.0.1:5000/sub"
    says = f"MLflow at {server}: API request to {server}/api/2.0/mlflow/x failed"
    assert str(client._failure(error)) == says


def test_a_run_without_a_registered_model_writes_no_version() -> None:
    """There is no client here that could be called."""
    assert object.__new__(Mlflow)._write_model(record(package=None), "run") == ""


USERS = {
    "PATH": "/usr/bin",
    "AWS_PROFILE": "production",
    "AWS_ACCESS_KEY_ID": "AKIAOFTHEUSER",
    "SAGEMAKER_MLFLOW_ASSUME_ROLE_ARN": "arn:aws:iam::444455556666:role/production",
    "MLFLOW_S3_ENDPOINT_URL": "https://s3.amazonaws.com",
    "MLFLOW_TRACKING_TOKEN": "of-the-server",
}


def session_at(target: Target) -> Session:
    return Session(Workspace(ROOT, USERS), load_environment("dev", ROOT, workload="mnist"), target)


def test_a_local_export_has_nothing_of_the_users_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, before = "http://localhost:4566", dict(os.environ)
    monkeypatch.setattr(mlflow_export, "Mlflow", lambda _: None)
    session = session_at(Target("111122223333", "us-east-1", endpoint, "secret"))
    with connected(session, SERVER):
        seen = dict(os.environ)
    kept = {name: value for name, value in USERS.items() if seen.get(name) == value}
    assert kept.keys() == {"PATH", "MLFLOW_TRACKING_TOKEN"}
    assert {seen[name] for name in seen if "ENDPOINT" in name} == {endpoint}
    assert seen["SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT"] == endpoint
    assert seen["AWS_CONFIG_FILE"] == seen["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull
    assert dict(os.environ) == before


def test_an_export_to_aws_has_the_users_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow_export, "Mlflow", lambda _: None)
    with connected(session_at(Target("111122223333", "us-east-1")), SERVER):
        seen = dict(os.environ)
    assert seen == USERS | {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.mark.parametrize(
    "arn",
    [
        SERVER.replace("111122223333", "444455556666"),
        SERVER.replace("us-east-1", "eu-west-1"),
        SERVER.removesuffix("/runs"),
    ],
    ids=["account", "region", "no name"],
)
@pytest.mark.parametrize("endpoint", [None, "http://localhost:4566"], ids=["aws", "local"])
def test_an_arn_of_another_account_or_region_is_refused(arn: str, endpoint: str | None) -> None:
    session = session_at(Target("111122223333", "us-east-1", endpoint, "secret"))
    says = f"{arn} is no tracking server of dev, .* name arn:aws:sagemaker:us-east-1:111122223333:"
    with pytest.raises(UsageError, match=says), connected(session, arn):
        pass


METRICS = {
    "train:loss": Metric(regex="train_loss=([0-9.eE+-]+)"),
    "train:rows_per_second": Metric(regex="rows_per_second=([0-9.eE+-]+)", unit="rows/s"),
}
LINE = (
    "epoch=1 step=120/470 train_loss=0.1234 learning_rate=0.003 rows_per_second=3456.7"
    " elapsed_s=4.1 world_size=2"
)
READINGS = (Reading("train:loss", 0.1234), Reading("train:rows_per_second", 3456.7, "rows/s"))
WHOLE = Progress(READINGS, Position(1, 120, 470), 4.1, 2)


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        (LINE, WHOLE),
        (f"[1,mpirank:0,algo-1]<stdout>:{LINE}", WHOLE),
        ("now train_loss=3", Progress((Reading("train:loss", 3),))),
        ("epoch=7 train_loss=0.5", Progress((Reading("train:loss", 0.5),), Position(7))),
        (LINE.removeprefix("epoch=1 "), replace(WHOLE, position=Position(0, 120, 470))),
        *(
            (LINE.replace("0.1234", text), replace(WHOLE, readings=READINGS[1:]))
            for text in ("nan", "e", "1e999", "--")
        ),
    ],
)
def test_the_workloads_own_numbers_are_read_with_what_the_line_says_of_its_place(
    line: str, progress: Progress
) -> None:
    assert parse(line, METRICS) == progress


def test_a_training_is_followed_by_what_is_marked_or_else_by_everything() -> None:
    marked = METRICS | {"test:rmse": Metric(regex="rmse=([0-9.]+)", progress=True)}
    assert [*progress_metrics(marked)] == ["test:rmse"]
    assert progress_metrics(METRICS) == METRICS


def test_numbers_are_said_with_their_units_and_who_trains() -> None:
    said = "train:loss 0.1234, train:rows_per_second 3,457 rows/s"
    progress = Progress(READINGS, None, 4.1, 2)
    assert trained_text(READINGS, None) == said
    assert trained_text(READINGS, None, progress) == f"{said} on a world of 2, 4 s"
    assert trained_text(READINGS, Parts(2, (("ranks", 2),)), progress) == f"{said} on 2 ranks, 4 s"


@pytest.mark.parametrize(("line", "said"), rows(__file__, "cases.yaml", "who_trains"))
def test_who_trains_is_said_in_words(line: str, said: str) -> None:
    parts = parse(line, METRICS)
    assert isinstance(parts, Parts)
    assert str(parts) == said


@pytest.mark.parametrize(
    "line", ["Downloading code", "", LINE[:20], "subprocesses=2", "processes=2 of 4"]
)
def test_other_lines_have_no_metrics(line: str) -> None:
    assert parse(line, METRICS) is None


def test_steps_count_on_over_epochs() -> None:
    assert Position(3, 10, 470).steps_done == 950
    assert (Position(0, 120, 470).steps_done, str(Position(0, 120, 470))) == (120, "step 120/470")
