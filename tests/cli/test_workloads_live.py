"""Verbs of an environment with several workloads that ask shoal-local what is there."""

from __future__ import annotations

import json

import pytest

from config.loader import load_environment
from config.names import WORKLOAD_TAG, Names
from shoal.verbs.local_server import LocalServer
from tests.cli.test_promote_workloads import two
from tests.cli.trained import Checkout

__all__ = ["two"]


def test_status_shows_every_workload_also_where_one_is_not_deployed(
    two: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert two.shoal("status", "dev") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("dev ")] == ["dev mnist:", "dev houses:"]


def test_only_a_workload_that_is_in_the_file_or_deployed_is_destroyed(
    two: Checkout, local_server: LocalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    cloudformation = local_server.require().target.client("cloudformation")
    names = Names(load_environment("dev", two.root, workload="houses"))
    stack = names.stack("pipeline").replace("houses", "kites")
    tags = {
        "shoal:project": "platform",
        "shoal:environment": "dev",
        WORKLOAD_TAG: "shoal-kites-dev",
    }
    template = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}}
    cloudformation.create_stack(
        StackName=stack,
        TemplateBody=json.dumps(template),
        Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
    )
    assert two.shoal("destroy", "dev", "kytes") == 2
    assert 'has no workload "kytes"; there are: mnist, houses' in capsys.readouterr().err
    assert two.shoal("destroy", "dev", "kites") == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "destroyed: nothing named shoal-kites-dev is left",
        "left: everything else of dev, which its other workloads use",
    ]
    assert two.shoal("destroy", "dev", "kites") == 2
