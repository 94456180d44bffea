"""What a proof refuses before it makes anything, against shoal-local."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local_kit.control import trust
from shoal.aws import inventory
from shoal.aws.target import Target
from shoal.cli.main import main
from shoal.verbs.local_server import LocalServer
from shoal.verbs.prove.proof import PAGE
from tests.repository import link_checkout
from tests.verbs.conftest import ACCOUNT, REGION, delete_stack, make_stack, started

QUOTA = "ml.m5.xlarge for training job usage"
Prove = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def local_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """Start one in which nobody else makes stacks."""
    yield from started(tmp_path_factory.mktemp("emulator"))


@pytest.fixture
def account(local_server: LocalServer) -> Target:
    return local_server.require().target


@pytest.fixture
def prove(local_server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Prove:
    root = link_checkout(tmp_path)
    (root / ".shoal" / "local").symlink_to(local_server.state)

    def run(*arguments: str) -> tuple[int, str]:
        code = main(["--root", str(root), "prove", *arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("12345",), "'12345' is not an account id, which has twelve digits"),
        (
            ("444455556666",),
            "plays account 111122223333 in us-east-1: type `shoal prove 111122223333 --region",
        ),
        ((ACCOUNT, "--region", "us-west-2"), "plays account 111122223333 in us-east-1"),
        ((ACCOUNT, "--region", "moon"), "'moon' is not one of 'us-east-1', 'us-west-2'"),
    ],
)
def test_what_cannot_be_proven_is_refused(
    prove: Prove, account: Target, arguments: tuple[str, ...], message: str
) -> None:
    code, printed = prove(*arguments, "--local")
    assert (code, message in printed) == (2, True), printed
    assert inventory.of_bootstrap(account) == ()


@pytest.mark.parametrize(
    ("stack", "message"),
    [
        ("somebodys", "has other stacks (somebodys)"),
        ("shoal-proof-prove-extra", "has other stacks (shoal-proof-prove-extra)"),
        ("shoal-proof-prove-00ff-data", "prove-00ff of an earlier proof"),
    ],
)
def test_an_account_with_stacks_is_refused(
    prove: Prove, account: Target, tmp_path: Path, stack: str, message: str
) -> None:
    before = set(tmp_path.glob("prove-out/*"))
    make_stack(account, stack)
    code, printed = prove(ACCOUNT, "--local")
    delete_stack(account, stack)
    assert (code, message in printed) == (2, True), printed
    assert set(tmp_path.glob("prove-out/*")) == before  # there is nothing to send


def test_a_bucket_of_a_bootstrap_that_is_gone_is_nobodys_to_delete(
    prove: Prove, account: Target
) -> None:
    bucket = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
    account.client("s3").create_bucket(Bucket=bucket)
    code, printed = prove(ACCOUNT, "--local")
    assert (code, f"left bucket {bucket}" in printed) == (2, True), printed
    account.client("s3").delete_bucket(Bucket=bucket)


def test_what_another_bootstrap_made_is_not_this_ones(account: Target) -> None:
    s3, iam, stack = account.client("s3"), account.client("iam"), "CDKToolkit-x"
    place = f"{ACCOUNT}-{REGION}"
    buckets = [f"cdk-hnb659fds-{each}" for each in (f"x-assets-{place}", f"assets-{ACCOUNT}-x-1")]
    roles = [f"cdk-hnb659fds-{each}" for each in (f"x-deploy-role-{place}", f"own-role-{place}")]
    make_stack(account, stack)
    for bucket in buckets:
        s3.create_bucket(Bucket=bucket)
    for role in roles:
        iam.create_role(RoleName=role, AssumeRolePolicyDocument=trust({"AWS": ACCOUNT}))
    found = inventory.of_bootstrap(account)
    delete_stack(account, stack)
    for bucket in buckets:
        s3.delete_bucket(Bucket=bucket)
    for role in roles:
        iam.delete_role(RoleName=role)
    assert found == ()


def test_a_quota_of_0_stops_it_before_anything_is_made(
    prove: Prove, account: Target, tmp_path: Path
) -> None:
    quotas = account.client("service-quotas")
    pages = quotas.get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    (code,) = [q["QuotaCode"] for page in pages for q in page["Quotas"] if q["QuotaName"] == QUOTA]
    request = {"ServiceCode": "sagemaker", "QuotaCode": code}
    quotas.request_service_quota_increase(**request, DesiredValue=0)
    page = (tmp_path / PAGE).read_text()
    exit_code, printed = prove(ACCOUNT, "--local", "--write")
    quotas.request_service_quota_increase(**request, DesiredValue=20)
    assert (exit_code, QUOTA in printed, "left behind  nothing" in printed) == (1, True, True)
    assert inventory.of_bootstrap(account) == ()
    report = Path(printed.partition("report ")[2].split()[0]).read_text()
    assert ("- deploy (3): not reached" in report, "- doctor: not as expected" in report) == (
        True,
        True,
    )
    assert (tmp_path / PAGE).read_text() == page
