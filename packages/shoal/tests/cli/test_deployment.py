"""An interrupted `shoal deploy`: the CLI ends, CloudFormation does not, and the command says so."""

from __future__ import annotations

import json
import os
import signal

import pytest
from click.testing import CliRunner

from shoal.cli.commands.platform.deployment import reporting_unfinished_work
from shoal.cli.endings import interrupted_once
from shoal.cli.main import shoal
from shoal.errors import CommandError
from shoal.verbs.workspace import Workspace
from tests.cli.trained import Checkout
from tests.verbs.conftest import delete_stack, make_stack
from tests.verbs.slow_stack import slow


def test_an_interrupted_one_goes_on(released: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    session = Workspace(released.root, dict(os.environ)).open("staging", local=True)
    cloudformation, stack = session.target.client("cloudformation"), session.names.stack("serving")
    until = released.root / "until"
    body = json.dumps({"Resources": {"One": slow(session.target, until)}})
    capsys.readouterr()
    cloudformation.create_stack(StackName=stack, TemplateBody=body)
    with pytest.raises(KeyboardInterrupt), interrupted_once(), reporting_unfinished_work(session):
        os.kill(os.getpid(), signal.SIGTERM)
    lines = capsys.readouterr().err.splitlines()
    until.touch()
    waiter = cloudformation.get_waiter("stack_create_complete")
    waiter.wait(StackName=stack, WaiterConfig={"Delay": 1})
    at_its_deadline = CommandError("cdk deploy", None, [], released.root)
    with pytest.raises(CommandError), reporting_unfinished_work(session):
        raise at_its_deadline
    delete_stack(session.target, stack)
    again = (
        "to go on here: `shoal deploy staging --local`, which waits for such stacks, and deploys"
        " what is not deployed"
    )
    assert lines == [f"CloudFormation goes on: stack {stack} is CREATE_IN_PROGRESS", again]
    assert capsys.readouterr().err.splitlines() == [again]


def test_a_deployment_that_failed_by_itself_has_nothing_going_on(
    released: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Workspace(released.root, dict(os.environ)).open("staging", local=True)
    failed = CommandError("cdk deploy", 1, [], released.root)
    with pytest.raises(CommandError), reporting_unfinished_work(session):
        raise failed
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
