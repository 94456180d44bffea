"""Verbs of an environment with several workloads that ask shoal-local what is there."""

from __future__ import annotations

import uuid

import pytest

from shoal.settings.loading.loader import load_environment
from shoal.settings.names import WORKLOAD_TAG, Names
from shoal.verbs.local_server import LocalServer
from tests.cli.test_promote_workloads import two
from tests.cli.trained import Checkout
from tests.verbs.conftest import make_pipeline, make_stack

__all__ = ["two"]
STEP = {"Name": "Stop", "Type": "Fail", "Arguments": {"ErrorMessage": "x"}}
STAGING, PRICES = ("staging",), ("staging", "prices")


def test_status_shows_every_workload_and_ends_with_2_where_one_is_not_deployed(
    two: Checkout, local_server: LocalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    target = local_server.require().target
    pipelines = [
        Names(load_environment("staging", two.root, workload=workload)).pipeline
        for workload in ("mnist", "prices")
    ]
    codes, shown = [], []
    for deployed in (None, *pipelines):
        if deployed:
            make_pipeline(target, [STEP], name=deployed)
        codes.append([two.shoal("status", *words) for words in (STAGING, PRICES)])
        shown.append(capsys.readouterr())
    for pipeline in pipelines:
        target.client("sagemaker").delete_pipeline(
            PipelineName=pipeline, ClientRequestToken=uuid.uuid4().hex
        )
    assert codes == [[2, 2], [2, 2], [0, 0]]
    heads = [line for line in shown[1].out.splitlines() if line.startswith("staging ")]
    assert heads == ["staging mnist:", "staging prices:"]
    assert f"pipeline {pipelines[0]} has had no executions" in shown[1].out
    deploys = "`shoal deploy staging --local` deploys it"
    assert [message.err.splitlines()[0] for message in shown[:2]] == [
        f"shoal: not deployed: staging mnist, staging prices; {deploys}",
        f"shoal: not deployed: staging prices; {deploys}",
    ]


def test_only_a_workload_that_is_in_the_file_or_deployed_is_destroyed(
    two: Checkout, local_server: LocalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    target = local_server.require().target
    names = Names(load_environment("dev", two.root, workload="prices"))
    stack = names.stack("pipeline").replace("prices", "kites")
    tags = {"shoal:project": "platform", "shoal:environment": "dev"}
    tags[WORKLOAD_TAG] = "shoal-kites-dev"
    make_stack(target, stack, Tags=[{"Key": key, "Value": tags[key]} for key in tags])
    assert two.shoal("destroy", "dev", "kytes") == 2
    assert 'has no workload "kytes"; there are: mnist, prices' in capsys.readouterr().err
    assert two.shoal("destroy", "dev", "kites") == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "destroyed: nothing named shoal-kites-dev is left",
        "left: everything else of dev, which its other workloads use",
    ]
    assert two.shoal("destroy", "dev", "kites") == 2
