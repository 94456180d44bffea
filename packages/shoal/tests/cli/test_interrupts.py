"""Signals, sent to a real process, and an interrupted `shoal deploy`: the CLI ends, CloudFormation
does not, and the command says so below its live view.
"""

import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from shoal.cli.commands.deployment import deploying
from shoal.cli.main import interrupted_once, shoal
from shoal.errors import CommandError
from shoal.verbs.workspace import Workspace
from tests.cli.trained import Checkout
from tests.repository import ROOT
from tests.verbs.conftest import delete_stack, make_stack, slow

PROGRAM = """
import select, sys, time
from shoal.cli.main import interrupted_once
with interrupted_once("ends within a minute") as shield:
    if "shielded" in sys.argv:
        shield()
    try:
        print("up", flush=True)
        while True:  # a signal just before a long wait would be seen after it only
            time.sleep(0.1)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        if sys.argv[1] == "until told":
            while not select.select([sys.stdin], [], [], 0.1)[0]:
                pass
        print("cleaned up", flush=True)
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_interrupts(number: signal.Signals) -> None:
    process = start("at once")
    process.send_signal(number)
    assert process.communicate(timeout=10)[0] == "interrupted\ncleaned up\n"


def test_a_second_signal_does_not_disturb_the_cleaning_up() -> None:
    process = start("until told")
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    said = [process.stderr.readline() for _ in range(2)]
    assert said == ["\n", "ends within a minute\n"]
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "\n"
    assert "cannot be interrupted" in process.stderr.readline()
    assert process.communicate(timeout=10)[0] == "cleaned up\n"


def test_a_shielded_part_is_not_interrupted_at_all() -> None:
    process = start("at once", "shielded")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert process.stderr.readline() == "\n"
    assert "cannot be interrupted" in process.stderr.readline()
    process.kill()
    assert process.communicate(timeout=10)[0] == ""


def test_an_interrupted_one_goes_on(released: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    session = Workspace(released.root, dict(os.environ)).open("staging", local=True)
    cloudformation, stack = session.target.client("cloudformation"), session.names.stack("serving")
    until = released.root / "until"
    body = json.dumps({"Resources": {"One": slow(session.target, until)}})
    capsys.readouterr()
    cloudformation.create_stack(StackName=stack, TemplateBody=body)
    with pytest.raises(KeyboardInterrupt), interrupted_once(), deploying(session):
        os.kill(os.getpid(), signal.SIGTERM)
    lines = capsys.readouterr().err.splitlines()
    until.touch()
    waiter = cloudformation.get_waiter("stack_create_complete")
    waiter.wait(StackName=stack, WaiterConfig={"Delay": 1})
    at_its_deadline = CommandError("cdk deploy", None, [], released.root)
    with pytest.raises(CommandError), deploying(session):
        raise at_its_deadline
    delete_stack(session.target, stack)
    again = (
        "to go on here: `shoal deploy staging --local`, which waits for such stacks, and deploys"
        " what is not deployed"
    )
    assert lines == [f"CloudFormation goes on: stack {stack} is CREATE_IN_PROGRESS", again]
    assert capsys.readouterr().err.splitlines() == [again]
    by_itself = CommandError("cdk deploy", 1, [], released.root)
    with pytest.raises(CommandError), deploying(session):
        raise by_itself
    assert capsys.readouterr().err == ""


def test_a_workflow_is_told_what_a_deployment_refuses_before_it_changes_anything(
    released: Checkout,
) -> None:
    session = Workspace(released.root, dict(os.environ)).open("staging", local=True)
    outputs = {"DataBucketName": {"Value": "acme-lake"}}
    stack = make_stack(session.target, session.names.shared.stack("data"), Outputs=outputs)
    command = ["--root", str(released.root), "deploy", "staging", "--check", "--local"]
    refused = CliRunner().invoke(shoal, command)
    delete_stack(session.target, stack)
    allowed = CliRunner().invoke(shoal, command)
    says = "staging is deployed with acme-lake"
    assert (refused.exit_code != 0, says in str(refused.exception or refused.output)) == (
        True,
        True,
    )
    assert (allowed.exit_code, allowed.output) == (0, "nothing refuses a deployment of staging\n")


_PROGRAM = """
import os, signal
from types import SimpleNamespace
from shoal.cli.commands.deployment import deploying
from shoal.cli.main import interrupted_once
from shoal.aws.events import Detail
from shoal.verbs.flow import phase

stacks = SimpleNamespace(busy=lambda: {"shoal-mnist-dev-data": "CREATE_IN_PROGRESS"})
target = SimpleNamespace(is_local=True)
session = SimpleNamespace(stacks=lambda report: stacks, target=target, arguments="dev --local")
with interrupted_once(), deploying(session) as view, phase("deploy dev to a place", view):
    view(Detail("shoal-mnist-dev-data: creating stack... " + "x" * 200))
    os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize("columns", [80, 120])
def test_the_message_stands_below_the_live_view(columns: int) -> None:
    output = _on_a_terminal(columns)
    drawn = [match.end() for match in re.finditer(r"\x1b\[[0-9;]*[A-KJ]|\x1b\[\?25h", output)]
    below = output[drawn[-1] :]
    assert "CloudFormation goes on: stack shoal-mnist-dev-data is CREATE_IN_PROGRESS" in below
    assert "to go on here: `shoal deploy dev --local`" in below


def _on_a_terminal(columns: int) -> str:
    """Return all that the program writes to a terminal of that width."""
    ours, its = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "LINES": "24", "TERM": "xterm-256color"}
    command = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=its, stderr=its):
        os.close(its)
        output = b""
        while block := _read(ours):
            output += block
    os.close(ours)
    return output.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the last writer has closed it
        return b""
