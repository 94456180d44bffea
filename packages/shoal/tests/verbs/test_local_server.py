"""shoal-local as a child process, with the real one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.errors import CommandError, NotFoundError
from shoal.processes import is_alive
from shoal.verbs.local_server import LocalServer, port_answers
from tests.processes import mentioning
from tests.repository import ROOT
from tests.verbs.conftest import ACCOUNT, REGION


@pytest.fixture
def local_server(tmp_path: Path) -> Iterator[LocalServer]:
    server = LocalServer(ROOT, tmp_path / "state", tmp_path / "emulator.log", os.environ)
    yield server
    server.sweep()


def test_it_answers_once_started_and_is_gone_afterwards(local_server: LocalServer) -> None:
    running = local_server.start(ACCOUNT, REGION)
    running.target.check_account()
    assert local_server.find() == running
    local_server.shut_down()
    assert not port_answers(running.endpoint)
    assert not is_alive(running.pid)
    assert not local_server.state.exists()


def test_where_one_rank_is_all_there_can_be_it_says_so(local_server: LocalServer) -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        running = local_server.start(ACCOUNT, REGION)
    finally:
        os.sched_setaffinity(0, allowed)
    local_server.shut_down()
    assert "this machine has one core: each host shows one GPU, so one rank trains" in (
        running.notice or ""
    )


def test_it_is_told_the_users_own_images(local_server: LocalServer) -> None:
    with pytest.raises(CommandError, match=r"--image mine:\*=jax: there is no runtime 'jax'"):
        local_server.start(ACCOUNT, REGION, {"*": "pytorch", "mine:*": "jax"})


def test_what_a_killed_one_left_is_removed_by_the_next(local_server: LocalServer) -> None:
    first = local_server.start(ACCOUNT, REGION)
    os.kill(first.pid, signal.SIGKILL)
    second = local_server.start(ACCOUNT, REGION)
    assert second.pid != first.pid
    local_server.shut_down()
    assert mentioning(str(local_server.state)) == ()


def test_a_state_file_of_a_dead_process_is_no_emulator(local_server: LocalServer) -> None:
    local_server.state.mkdir()
    state = {
        "endpoint": "http://localhost:9",
        "pid": 2**22 - 1,
        "account": ACCOUNT,
        "region": REGION,
        "cores": 2,
    }
    (local_server.state / "emulator.json").write_text(json.dumps(state))
    assert local_server.find() is None
    with pytest.raises(NotFoundError, match="shoal local up"):
        local_server.require()
