"""The pytest plugin of shoal-local: the fixture `sagemaker_local`, an AWS account for tests.

    def test_a_job_trains(sagemaker_local):
        boto3.client("sagemaker").create_training_job(...)

pytest loads this module in every run, so nothing else of the package is imported before a test asks
for the fixture.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from shoal_local.testing import LocalAccount

OPTIONS = "sagemaker_local_options"
FIRST_ACCOUNT = 111122223333
ACCOUNTS_PER_EMULATOR = 16
"""An account takes about 5 MB and 0.1 s of CPU whether a module uses it or not."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option."""
    parser.addini(
        OPTIONS,
        type="args",
        default=[],
        help="options of `shoal-local serve` for the fixture sagemaker_local, as --enforce-iam",
    )


@pytest.fixture
def sagemaker_local(
    sagemaker_local_account: LocalAccount, monkeypatch: pytest.MonkeyPatch
) -> LocalAccount:
    """Return an account of shoal-local that belongs to the test module, and let boto3, `aws` and
    SageMaker's SDKs use it during the test, by environment variables.

    `sagemaker_local.client("s3")` is a boto3 client. Other variables of AWS are unset meanwhile.
    """
    import boto3

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in sagemaker_local_account.variables().items():
        monkeypatch.setenv(name, value)
    # boto3 keeps the credentials of the module before in its session
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    return sagemaker_local_account


@pytest.fixture(scope="module")
def sagemaker_local_account(_sagemaker_local_accounts: Iterator[LocalAccount]) -> LocalAccount:
    """Return the module's account of shoal-local, with an empty state, and set no variables.

    It is for fixtures that live as long as the module, as a model that is trained once.
    """
    return next(_sagemaker_local_accounts)


@pytest.fixture(scope="session")
def _sagemaker_local_accounts(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Iterator[LocalAccount]]:
    """Yield unused accounts; one emulator runs at a time, and is stopped at the end."""
    folder = tmp_path_factory.mktemp("shoal-local")
    with contextlib.closing(_unused_accounts(folder, pytestconfig.getini(OPTIONS))) as accounts:
        yield accounts


def _unused_accounts(folder: Path, options: list[str]) -> Generator[LocalAccount, None, None]:
    """Yield the accounts of one emulator after the other, each of which stops when its accounts
    are used up.
    """
    from shoal_local.testing import emulator

    numbers = [str(FIRST_ACCOUNT + index) for index in range(ACCOUNTS_PER_EMULATOR)]
    named = [word for number in numbers for word in ("--account", number)]
    while True:
        with emulator(folder / "state", *named, *options) as running:
            yield from (running.account.other(number) for number in numbers)
