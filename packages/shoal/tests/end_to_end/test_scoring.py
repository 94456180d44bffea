"""A model of scikit-learn from its script to scheduled scores, with the policies of the roles."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_kit.control import eventually
from shoal.aws import inventory
from shoal.aws.execution import Pipeline
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.verbs.new_workload import write_workload
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from tests.end_to_end.conftest import Checkout

SCORING = "scoring:\n  join: input\n  schedules: [{name: often, expression: rate(1 minute)}]\n"


def succeeded(pipeline: Pipeline) -> int:
    """Return how many executions ended well."""
    return [each["PipelineExecutionStatus"] for each in pipeline.executions()].count("Succeeded")


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
        refused = own.run("score", "late", "--local")
        assert "the registry has no version of" in refused.output
        own.succeed("data", "upload", "late", "--local")
        own.succeed("run", "late", "--local", "--follow")
        assert "no version of" in own.run("score", "late", "--local").output
        own.succeed("approve", "late", "1", "--local")
        assert "brings the folder score/" in own.run("score", "late", "--local").output
        uploaded = own.succeed("data", "upload", "late", "--local", "--from", "rows")
        assert "1 of 1 files uploaded" in uploaded
        assert "version 2 is not approved; approved are: 1" in (
            own.run("score", "late", "--local", "--version", "2").output
        )
        scored = own.document("score", "late", "--local")
        assert scored["version"] == "1"
        assert scored["results"].endswith("/version-1/")
        assert [row.rpartition(",")[0] for row in scored["rows"]] == ["10,2,100", "40,9,10"]
        pipeline = Pipeline(own.local_target, names.scoring.pipeline)
        assert eventually(lambda: succeeded(pipeline) > 1, 180.0)  # the schedule's
        own.succeed("destroy", "late", "--local")
        owner = inventory.owner_in(own.local_target, names)
        assert inventory.of_environment(own.local_target, owner) == ()
