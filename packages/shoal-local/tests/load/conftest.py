"""One emulator for all tests of load, in a process of its own, so that its memory is nobody else's;
and how much memory a process had at its peak, as Linux counts it.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


@contextmanager
def growth_below(limit_kib: int, pid: int = 0) -> Iterator[None]:
    """Require that a process (this one by default) takes less resident memory at its peak, over
    what it has at the beginning, while this is open.
    """
    process = Path(f"/proc/{pid or os.getpid()}")
    (process / "clear_refs").write_text("5")  # the peak begins again (proc(5))
    before = _kib(process, "VmRSS")
    yield
    assert _kib(process, "VmHWM") - before < limit_kib


def _kib(process: Path, what: str) -> int:
    return int((process / "status").read_text().partition(f"{what}:")[2].split()[0])
