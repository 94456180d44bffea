"""One shoal-local with one registry for the tests of releases, and a checkout for each test."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from shoal.verbs.local_server import LocalServer
from tests.cli.trained import Checkout, Package, Refused, Registry, promoted
from tests.verbs.conftest import started

STAGING, PROD = "222233334444", "333344445555"


@pytest.fixture(scope="session")
def local_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    yield from started(tmp_path_factory.mktemp("emulator"))


@pytest.fixture(scope="session")
def registry(local_server: LocalServer) -> Registry:
    return Registry(local_server.require().target)


@pytest.fixture(scope="session")
def good(registry: Registry) -> Package:
    """Return a version with which nothing is wrong."""
    return registry.approved()


@pytest.fixture(scope="session")
def three_accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """Start a shoal-local that plays dev's, staging's and prod's account."""
    yield from started(tmp_path_factory.mktemp("accounts"), STAGING, PROD)


@pytest.fixture(scope="session")
def registry_of_dev(three_accounts: LocalServer) -> Registry:
    return Registry(three_accounts.require().target)


@pytest.fixture
def released(tmp_path: Path, local_server: LocalServer) -> Checkout:
    return Checkout.new(tmp_path, local_server.state)


@pytest.fixture
def refused(released: Checkout, capsys: pytest.CaptureFixture[str]) -> Refused:
    return partial(released.refused, capsys)


@pytest.fixture
def staged(released: Checkout, registry: Registry) -> Package:
    """Return a version of its own that staging pins."""
    package = registry.approved()
    released.merge(promoted(released, package))
    return package
