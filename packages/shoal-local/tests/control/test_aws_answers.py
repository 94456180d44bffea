"""AWS's answers that are known, asked of shoal-local: each case of `aws_answers.yaml`."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest

from shoal_local.testing import LocalAccount, emulator
from tests.control.aws_answers import Case, RefusedError, World, cases, replay

DIFFERENT = {"too many stars are too complex"}
"""What shoal-local is known to answer otherwise."""
REFUSED = {
    "a command needs instances",
    "an archive keeps events",
    "an export needs a bucket that lets Logs write",
    "another region has things of its own",
}
"""What it refuses by name."""


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAccount]:
    with emulator(tmp_path_factory.mktemp("emulator")) as local:
        yield local.account


@pytest.fixture(scope="module")
def world(account: LocalAccount) -> World:
    variables = account.environment()
    session = boto3.Session(
        variables["AWS_ACCESS_KEY_ID"],
        variables["AWS_SECRET_ACCESS_KEY"],
        region_name=variables["AWS_REGION"],
    )
    return World(session, account.endpoint)


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.service}: {case.name}")
def test_aws_answers_so(world: World, case: Case) -> None:
    if case.name in REFUSED:
        with pytest.raises(RefusedError):
            replay(case, world)
    else:
        assert (replay(case, world) is None) is (case.name not in DIFFERENT)
