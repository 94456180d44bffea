"""Releases across accounts: each environment in one of its own, and every question asked where its answer is."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.emulator_process import EmulatorProcess
from config.loader import load_environment
from tests.cli.conftest import PROD, STAGING
from tests.cli.trained import Checkout, Registry
from tests.lifecycle.conftest import ACCOUNT


def test_a_release_goes_from_account_to_account_and_is_found_as_pinned(
    three_accounts: EmulatorProcess, registry_of_dev: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout = Checkout.new(tmp_path, three_accounts.state, staging=STAGING)
    package = registry_of_dev.register()
    assert checkout.shoal("approve", "dev") == 0
    for source, destination in (("dev", "staging"), ("staging", "prod")):
        assert checkout.shoal("promote", "--from", source, "--to", destination, "--push", "origin") == 0
        checkout.merge(f"promote/{destination}/shoal-mnist-dev-{package.version}")
    capsys.readouterr()
    assert checkout.shoal("release", "status") == 0
    printed = capsys.readouterr().out
    for name, account in (("staging", STAGING), ("prod", PROD)):
        environment = load_environment(name, checkout.root)
        assert environment.account == account
        assert environment.release is not None
        assert environment.release.model_package_arn == package.arn
        assert f"{name}: pins {package.arn}\n  ok      registry: Approved, by arn:aws:iam::{ACCOUNT}:root" in printed
    assert "unknown" not in printed
