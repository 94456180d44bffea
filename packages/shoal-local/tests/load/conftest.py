"""One emulator for all tests of load, in a process of its own, so that its memory is nobody
else's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from local_kit.control import Account, running
from local_kit.sagemaker_account import Account as JobsAccount
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with running(tmp_path_factory.mktemp("load")) as found:
        yield found


@pytest.fixture(scope="session")
def jobs(account: Account) -> JobsAccount:
    """The same account, with what jobs need.

    One has run: the first one brings modules and clients that all find, some 50 MiB.
    """
    build(runtimes()["pytorch"], None, print)
    jobs = JobsAccount.at(account)
    jobs.train("first")
    return jobs


@pytest.fixture(scope="session")
def emulator_pid(account: Account) -> int:
    return int(json.loads((account.state_dir / "emulator.json").read_text())["pid"])
