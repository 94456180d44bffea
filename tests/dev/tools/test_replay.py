"""AWS's answers that are known, asked of shoal-local: each case of `dev/tools/aws_answers.yaml`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from dev.tools.replay import Agreement, Case, RefusedError, World, cases, replay
from shoal_local.testing import LocalAccount, emulator

ROOT = Path(__file__).resolve().parents[3]
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


def test_what_is_refused_by_name_does_not_count(world: World) -> None:
    own = [case for case in cases() if case.service in {"sagemaker", "scheduler"}]
    agreement = Agreement.of(world, own)
    assert agreement.percent("sagemaker") == 100
    assert "  refused: another region has things of its own" in list(agreement.lines())


@pytest.mark.nightly
def test_every_service_agrees_in_95_percent_and_what_differs_is_listed(
    account: LocalAccount,
) -> None:
    replayed = subprocess.run(
        [sys.executable, "-m", "dev.tools.replay", "--under", "95"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **account.environment()},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    print(replayed.stdout)
    listed = [line for line in replayed.stdout.splitlines() if line.startswith("  differs: ")]
    assert replayed.returncode == 0, replayed.stderr
    assert len(listed) == len(DIFFERENT)
