"""Releases across accounts: each environment has its own, and is asked about itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.settings.loading.loader import load_environment
from shoal.verbs.local_server import LocalServer
from tests.cli.conftest import PROD, STAGING
from tests.cli.test_promote import TO_STAGING
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
        way = ("--from", source, "--to", destination, "--push", "origin")
        assert checkout.shoal("promote", *way) == 0
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


def test_a_promotion_asks_for_nothing_but_a_merge_and_a_deployment(
    three_accounts: LocalServer,
    registry_of_dev: Registry,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkout = Checkout.new(tmp_path, three_accounts.state, staging=STAGING)
    package = registry_of_dev.approved()
    capsys.readouterr()
    assert checkout.shoal(*TO_STAGING, "--package", package.version) == 0
    branch = f"promote/staging/shoal-mnist-dev-{package.version}"
    says = f"next: git push origin {branch}, merge it, and deploy staging\n"
    assert capsys.readouterr().out.endswith(says)
    message = checkout.git("log", "-1", "--format=%B", branch)
    assert "brings the archive into its own bucket" in message
