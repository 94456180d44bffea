"""A release of one of several workloads goes into its own section of the next file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from shoal.repository import Repository
from shoal.settings.loading.loader import load_environment, load_workloads
from shoal.settings.names import Names
from shoal.verbs.local_server import LocalServer
from shoal.verbs.promote.promotion_path import PromotionStep
from tests.cli.several import DEV, STAGING, checkout_of_two
from tests.cli.test_promote import TO_STAGING
from tests.cli.trained import Checkout, Registry
from tests.repository import CHECKOUT, add_workload
from tests.settings.releases import numbered
from tests.verbs.conftest import ACCOUNT


@pytest.fixture
def two(tmp_path: Path, local_server: LocalServer) -> Checkout:
    return made(tmp_path, local_server.state)


def made(folder: Path, state: Path) -> Checkout:
    """Return a checkout whose dev and staging have two workloads each, in one account."""
    checkout = Checkout.new(folder, state)
    code, environments = checkout.root / "training_code", checkout.root / "environments"
    add_workload(checkout.root)
    shutil.copytree(
        CHECKOUT / "training_code" / "mnist",
        code / "mnist",
        ignore=shutil.ignore_patterns("pytorch"),
        dirs_exist_ok=True,
    )
    shutil.rmtree(code / "prices" / "pytorch")
    shutil.copytree(code / "mnist" / "pytorch", code / "prices" / "pytorch")
    (environments / "dev.yaml").write_text(DEV)
    (environments / "staging.yaml").write_text(STAGING.replace("222233334444", ACCOUNT))
    (environments / "prod.yaml").unlink()
    checkout.commit("Let the environments have two workloads")
    return checkout


@pytest.fixture(scope="module")
def registry_of_prices(
    tmp_path_factory: pytest.TempPathFactory, local_server: LocalServer
) -> Registry:
    root = checkout_of_two(tmp_path_factory.mktemp("checkout"))
    view = load_environment("dev", root, workload="prices")
    return Registry(local_server.require().target, Names(view))


def test_a_release_of_one_workload_changes_nothing_of_the_other(
    two: Checkout, registry_of_prices: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry_of_prices.register()
    assert two.shoal("approve", "dev", "prices") == 0
    assert "several workloads (mnist, prices); nothing was promoted; name one" in two.refused(
        capsys, *TO_STAGING
    )
    assert two.shoal(*TO_STAGING, "--workload", "prices") == 0
    branch = f"promote/staging/shoal-prices-dev-{package.version}"
    changes = two.git("diff", "--unified=0", "main", branch).splitlines()
    assert [line for line in changes if line.startswith("-") and not line.startswith("---")] == []
    assert two.git("log", "-1", "--format=%s", branch) == (
        f"Promote shoal-prices-dev version {package.version} from dev to staging"
    )
    two.merge(branch)
    pins = {
        workload: load_environment("staging", two.root, workload=workload).release
        for workload in ("mnist", "prices")
    }
    assert pins["mnist"] is None
    assert pins["prices"] is not None
    assert pins["prices"].model_package_arn == package.arn
    capsys.readouterr()
    assert two.shoal(*TO_STAGING, "--workload", "prices") == 0
    assert "staging pins" in capsys.readouterr().out
    assert two.shoal("release", "status", "staging") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "staging mnist: pins no release" in lines
    assert f"staging prices: pins {package.arn}" in lines


def test_a_proposal_is_made_again_when_another_workload_was_released_since(tmp_path: Path) -> None:
    """The file is written whole, so git would not merge two that add it."""
    checkout = made(tmp_path, tmp_path)
    root = checkout.root

    def propose(workload: str, number: int) -> str:
        dev, staging = (
            load_environment(name, root, workload=workload) for name in ("dev", "staging")
        )
        step = PromotionStep(root, Repository(root, os.environ), dev, staging, dev)
        release = numbered(number)
        step.commit(release, "Pin it")
        return step.branch(release)

    mnist, prices = propose("mnist", 2), propose("prices", 3)
    checkout.merge(mnist)
    assert propose("prices", 3) == prices
    checkout.merge(prices)
    pins = [each.release for each in load_workloads("staging", root)]
    assert pins == [numbered(2), numbered(3)]


def test_an_unknown_workload_is_refused(two: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    line = two.refused(capsys, *TO_STAGING, "--workload", "boats")
    assert 'has no workload "boats"; there are: mnist, prices' in line


def test_one_takes_releases_from_several(two: Checkout, registry_of_prices: Registry) -> None:
    package = registry_of_prices.approved()
    file = two.root / "environments" / "staging.yaml"
    shared, _, _ = file.read_text().partition("\nworkloads:")
    file.write_text(f"{shared}\nworkload: prices\ntraining: {{strategy: torchrun}}\n")
    two.commit("Serve prices only")
    assert two.shoal(*TO_STAGING, "--package", package.version) == 0
    two.merge(f"promote/staging/shoal-prices-dev-{package.version}")
    release = load_environment("staging", two.root).release
    assert release is not None
    assert release.model_package_arn == package.arn
