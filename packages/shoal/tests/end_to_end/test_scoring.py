"""A model of scikit-learn from its script to scheduled scores, with the policies of the roles."""

from pathlib import Path

import pytest

from local_kit.control import eventually
from shoal.aws import inventory
from shoal.aws.execution import Pipeline
from shoal.aws.objects import has_files
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import RUNS, Names
from shoal.verbs.new_workload import write_workload
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from tests.end_to_end.conftest import Checkout

SCORING = "scoring:\n  join: input\n  schedules: [{name: often, expression: rate(1 minute)}]\n"
SCORE = ("run", "late", "--local", "--score")


def succeeded(pipeline: Pipeline) -> int:
    """Return how many executions ended well."""
    return [each["PipelineExecutionStatus"] for each in pipeline.executions()].count("Succeeded")


def watched(own: Checkout, names: Names, pipeline: Pipeline) -> None:
    """Assert that the schedule's execution is seen as a training's is, though nobody follows."""
    arn = str(pipeline.executions()[0]["PipelineExecutionArn"])
    run = arn.rpartition("/")[2]
    key = f"{names.folder(RUNS)}/{run}/run.html"
    bucket = names.bucket("artifacts")
    assert eventually(lambda: has_files(own.local_target, f"s3://{bucket}/{key}"), 120.0)
    (schedule,) = own.document("schedule", "list", "late", "--local")["schedules"]
    assert (schedule["name"], schedule["rings"]) == ("often", True)
    own.succeed("schedule", "pause", "late", "often", "--local")
    listed = own.document("status", "late", "--local")["executions"]
    assert run in {each["run"] for each in listed["late scoring"]}
    shown = own.document("status", "late", run, "--local")
    scored = shown["scored"]
    assert (shown["run"]["id"], scored["version"], len(scored["rows"])) == (run, "1", 2)
    assert "version 1 scored 1 object(s), " in own.succeed("status", "late", run, "--local")
    assert "often, rate(1 minute)" in own.succeed("plan", "late")
    cloudwatch = own.local_target.client("cloudwatch")
    alarms = {each["AlarmName"] for each in cloudwatch.describe_alarms()["MetricAlarms"]}
    failed = ("execution-failed", "find-errors", "schedule-often-missed", "not-torn-down")
    assert {names.scoring.alarm(each) for each in failed} <= alarms
    body = cloudwatch.get_dashboard(DashboardName=names.dashboard)["DashboardBody"]
    assert "Ends of scoring" in body
    assert f":alarm:{names.scoring.alarm('execution-failed')}" in body


def one_bad_file(own: Checkout, names: Names, rows: Path) -> None:
    """Assert that it is refused, and named in the failure where it is there all the same."""
    (rows / "bad.csv").write_text("10,2\n")
    refused = own.run("data", "upload", "late", "--local", "--from", "rows").output
    assert (
        "rows/score/new.csv: it has 3 columns, score/bad.csv has 2 columns: one is wrong" in refused
    )
    place = {"Bucket": names.bucket("data"), "Key": "datasets/late/score/bad.csv"}
    own.local_target.client("s3").put_object(**place, Body=b"10,2\n")
    failed = own.run(*SCORE, "--follow").output
    assert f"{place['Bucket']}/{place['Key']}: ValueError: send rows of" in failed
    assert ": Failed: " in own.succeed("status", "late", "--local", "--score")


@pytest.mark.registry  # the runtime of scikit-learn
@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_an_approved_version_scores_by_hand_and_by_schedule(
    checkout: Checkout, tmp_path: Path
) -> None:
    build(runtimes()["sklearn"], None, print)
    own = Checkout.new(tmp_path)
    _, file = write_workload(own.root, "late", "regression", "sklearn")
    with (own.root / file).open("a") as settings:
        settings.write(SCORING)
    rows = own.root / "rows" / "score"
    rows.mkdir(parents=True)
    (rows / "new.csv").write_text("10,2,100\n40,9,10\n")
    names = Names(load_environment("late", own.root))
    with own.emulator("late"):
        own.succeed("deploy", "late", "--local")
        refused = own.run(*SCORE)
        assert "the registry has no version of" in refused.output
        own.succeed("data", "upload", "late", "--local")
        own.succeed("run", "late", "--local", "--follow")
        assert "no version of" in own.run(*SCORE).output
        own.succeed("release", "approve", "late", "1", "--local")
        assert "brings the folder score/" in own.run(*SCORE).output
        uploaded = own.succeed("data", "upload", "late", "--local", "--from", "rows")
        assert "1 of 1 files uploaded" in uploaded
        scored = own.document(*SCORE, "--follow")["scored"]
        assert scored["version"] == "1"
        assert scored["uri"].endswith("/version-1/")
        assert [row.rpartition(",")[0] for row in scored["rows"]] == ["10,2,100", "40,9,10"]
        pipeline = Pipeline(own.local_target, names.scoring.pipeline)
        assert eventually(lambda: succeeded(pipeline) > 1, 180.0)  # the schedule's
        watched(own, names, pipeline)
        one_bad_file(own, names, rows)
        own.succeed("destroy", "late", "--local")
        owner = inventory.owner_in(own.local_target, names)
        assert inventory.of_environment(own.local_target, owner) == ()
