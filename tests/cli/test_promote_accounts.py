"""Releases across accounts: each environment has its own, and each question goes to the
right one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.loader import load_environment
from shoal.verbs.cdk import TOOLKIT_STACK
from shoal.verbs.deployed_stack import describe_stack
from shoal.verbs.local_server import LocalServer
from shoal.verbs.shared_release import require_shared
from tests.cli.conftest import PROD, STAGING
from tests.cli.test_promote import TO_STAGING, promoted
from tests.cli.trained import Checkout, Registry
from tests.verbs.conftest import ACCOUNT


def test_a_release_goes_from_account_to_account_and_is_found_as_pinned(
    three_accounts: LocalServer,
    registry_of_dev: Registry,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkout = Checkout.new(tmp_path, three_accounts.state, staging=STAGING)
    package = registry_of_dev.register()
    assert checkout.shoal("approve", "dev") == 0
    for source, destination in (("dev", "staging"), ("staging", "prod")):
        assert (
            checkout.shoal("promote", "--from", source, "--to", destination, "--push", "origin")
            == 0
        )
        checkout.merge(f"promote/{destination}/shoal-mnist-dev-{package.version}")
    capsys.readouterr()
    assert checkout.shoal("release", "status") == 0
    output = capsys.readouterr().out
    for name, account in (("staging", STAGING), ("prod", PROD)):
        environment = load_environment(name, checkout.root)
        assert environment.account == account
        assert environment.release is not None
        assert environment.release.model_package_arn == package.arn
        assert (
            f"{name}: pins {package.arn}\n  ok      registry: Approved, by"
            f" arn:aws:iam::{ACCOUNT}:root" in output
        )
    assert "unknown" not in output


@pytest.fixture
def pinning(three_accounts: LocalServer, registry_of_dev: Registry, tmp_path: Path) -> Checkout:
    """Return a checkout whose staging pins a version of dev's, without an approver's name."""
    checkout = Checkout.new(tmp_path, three_accounts.state, staging=STAGING)
    checkout.merge(promoted(checkout, registry_of_dev.approved()))
    return checkout


@pytest.fixture
def shared(registry_of_dev: Registry) -> Iterator[None]:
    """Let staging's account read dev's registry, as dev's data stack does."""
    group = {"ModelPackageGroupName": registry_of_dev.names.model_package_group}
    versions = registry_of_dev.names.arn(
        "sagemaker", f"model-package/{registry_of_dev.names.model_package_group}/*"
    )
    principal = {"AWS": f"arn:aws:iam::{STAGING}:root"}
    statement = {
        "Effect": "Allow",
        "Principal": principal,
        "Action": ["sagemaker:DescribeModelPackage"],
        "Resource": versions,
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [{"Sid": "Read", **statement}]})
    registry_of_dev.sagemaker.put_model_package_group_policy(**group, ResourcePolicy=policy)
    yield
    registry_of_dev.sagemaker.delete_model_package_group_policy(**group)


def test_what_another_account_reads_has_to_be_let_first_and_that_is_said(
    three_accounts: LocalServer,
    registry_of_dev: Registry,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkout, package = (
        Checkout.new(tmp_path, three_accounts.state, staging=STAGING),
        registry_of_dev.approved(),
    )
    capsys.readouterr()
    assert checkout.shoal(*TO_STAGING, "--package", package.version) == 0
    branch = f"promote/staging/shoal-mnist-dev-{package.version}"
    deploy = (
        "deploy dev first, so that staging may read it: `shoal deploy dev --local --data`; then"
        " staging"
    )
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == f"next: git push origin {branch}, merge it, and {deploy}"
    )
    assert "Deploy dev before staging" in checkout.git("log", "-1", "--format=%B", branch)


def test_where_every_version_is_shared_nothing_has_to_be_let(
    three_accounts: LocalServer,
    registry_of_dev: Registry,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkout, package = (
        Checkout.new(tmp_path, three_accounts.state, staging=STAGING),
        registry_of_dev.approved(),
    )
    with (checkout.root / "environments/dev.yaml").open("a") as file:
        file.write("shared_versions: every\n")
    checkout.commit("Share every version")
    capsys.readouterr()
    assert checkout.shoal(*TO_STAGING, "--package", package.version) == 0
    assert capsys.readouterr().out.endswith("merge it, and deploy\n")


def test_a_deployment_of_what_may_not_be_read_is_one_error_before_anything_is_made(
    pinning: Checkout, three_accounts: LocalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert pinning.shoal("deploy", "staging") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"shoal: account {ACCOUNT} does not let {STAGING} read"
        f" arn:aws:sagemaker:us-east-1:{ACCOUNT}:model-package/"
    )
    assert line.endswith(
        "nothing was deployed; deploy what says so, from this commit, first: `shoal deploy dev"
        " --local --data`"
    )
    assert describe_stack(three_accounts.require().target_of(STAGING), TOOLKIT_STACK) is None


@pytest.mark.usefixtures("shared")
def test_what_may_be_read_is_no_reason_to_stop(
    pinning: Checkout, three_accounts: LocalServer
) -> None:
    environment = load_environment("staging", pinning.root)
    assert environment.release is not None
    target = three_accounts.require().target_of(STAGING)
    assert require_shared(target, environment, environment.release, "") == ""
