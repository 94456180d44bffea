"""One emulator for all tests of load, in a process of its own, so that its memory is nobody else's;
and how much memory a process had at its peak, as Linux counts it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass
class Growth:
    """`kib` is by how much the resident memory grew at its peak over what it was at the beginning;
    known at the end.
    """

    kib: int = -1


@contextmanager
def growth(pid: int = 0) -> Iterator[Growth]:
    """What a process (this one by default) takes at most while this is open."""
    process = Path(f"/proc/{pid or os.getpid()}")
    (process / "clear_refs").write_text("5")  # the peak begins again (proc(5))
    before, found = _kib(process, "VmRSS"), Growth()
    yield found
    found.kib = _kib(process, "VmHWM") - before


def _kib(process: Path, what: str) -> int:
    return int((process / "status").read_text().partition(f"{what}:")[2].split()[0])
