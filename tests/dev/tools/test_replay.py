"""AWS's answers that are known, asked of shoal-local: each case of `dev/tools/aws_answers.yaml`."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest

from dev.tools.replay import Case, World, cases, replay
from shoal_local.testing import emulator

DIFFERENT = {"too many stars are too complex"}
"""What shoal-local is known to answer otherwise."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with emulator(tmp_path_factory.mktemp("emulator")) as local:
        variables = local.account.environment()
        session = boto3.Session(
            variables["AWS_ACCESS_KEY_ID"],
            variables["AWS_SECRET_ACCESS_KEY"],
            region_name=variables["AWS_REGION"],
        )
        yield World(session, local.account.endpoint)


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.service}: {case.name}")
def test_aws_answers_so(world: World, case: Case) -> None:
    assert (replay(case, world) is None) is (case.name not in DIFFERENT)
