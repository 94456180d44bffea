"""The verbs that act on one environment. Each opens a session, calls `lifecycle`, and prints."""

from __future__ import annotations

import json
from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table

from config.loader import load_environment
from shoal.cli.view import open_view
from shoal.demo.pipeline.phases import planned
from shoal.verbs import dataset, invoke, serving
from shoal.verbs.errors import NotFoundError, UsageError
from shoal.verbs.execution import Execution
from shoal.verbs.flow import phase
from shoal.verbs.follow import Follower
from shoal.verbs.logs import LogTail, location_of
from shoal.verbs.parameters import check_values, parse_parameters
from shoal.verbs.workspace import Session, Workspace

_environment = click.argument("environment", metavar="ENV")
_local = click.option(
    "--local",
    is_flag=True,
    help="Use the emulator on this machine, whatever the environment's `target` says.",
)


@click.command()
@click.argument("environment", metavar="[ENV]", required=False)
@click.pass_obj
def synth(workspace: Workspace, environment: str | None) -> None:
    """Write the CloudFormation templates of ENV, or of every environment, to cdk.out.

    Needs no network and no credentials.
    """
    if environment:
        load_environment(environment, workspace.root)
    assembly, folder = workspace.root / "cdk.out", workspace.root / ".shoal" / "cdk"
    with open_view() as view, phase("synth", view):
        workspace.cdk(assembly, folder, folder / "tmp", view).synth(environment)
    click.echo(f"written: {assembly}")


@click.group()
def data() -> None:
    """The dataset of an environment."""


@data.command()
@_environment
@_local
@click.pass_obj
def upload(workspace: Workspace, environment: str, local: bool) -> None:
    """Check the four MNIST files against their published md5 sums and upload those that are not
    there yet.
    """
    session = workspace.open(environment, local)
    dataset.require_known(session.environment.data.dataset, session.names.dataset_uri)
    with open_view() as view:
        dataset.upload(
            session.target, workspace.root / dataset.FOLDER, session.names.dataset_uri, view
        )


@click.command()
@_environment
@_local
@click.option(
    "--parameter",
    "-p",
    "parameters",
    multiple=True,
    metavar="KEY=VALUE",
    help="A pipeline parameter; may be repeated.",
)
@click.option(
    "--follow", is_flag=True, help="Stay until the execution has ended. Ctrl-C leaves it running."
)
@click.pass_obj
def run(
    workspace: Workspace, environment: str, local: bool, parameters: tuple[str, ...], follow: bool
) -> None:
    """Start an execution of ENV's pipeline."""
    session = workspace.open(environment, local)
    given = parse_parameters(parameters)
    check_values(session.environment, given, workspace.root)
    arn = session.pipeline.start(given)
    click.echo(f"started: {arn}")
    if follow:
        _follow(session, arn, given)


@click.command()
@_environment
@click.argument("execution", required=False)
@_local
@click.pass_obj
def status(workspace: Workspace, environment: str, execution: str | None, local: bool) -> None:
    """Show the executions of ENV's pipeline, or the steps of EXECUTION (an ARN, an id, or
    `latest`).
    """
    session = workspace.open(environment, local)
    console = Console(soft_wrap=True)
    if execution:
        _print_execution(console, session.pipeline.look(session.pipeline.find(execution)))
        return
    if served := serving.live(session.target, session.names.serving_endpoint):
        console.print(
            f"serving: {served}"
            + (f"; why a deployment of it failed: {served.failure}" if served.failure else "")
        )
    session.pipeline.definition()
    summaries = session.pipeline.executions()
    if not summaries:
        click.echo(
            f"pipeline {session.names.pipeline} has had no executions; start one with `shoal run"
            f" {session.arguments}`"
        )
        return
    table = Table("execution", "status", "started", box=None)
    for summary in summaries:
        identity = str(summary["PipelineExecutionArn"]).rpartition("/")[2]
        table.add_row(
            identity,
            summary["PipelineExecutionStatus"],
            summary["StartTime"].astimezone().strftime("%Y-%m-%d %H:%M:%S"),
        )
    console.print(table)


@click.command()
@_environment
@click.argument("execution")
@_local
@click.pass_obj
def stop(workspace: Workspace, environment: str, execution: str, local: bool) -> None:
    """Ask EXECUTION (an ARN, an id, or `latest`) to stop."""
    session = workspace.open(environment, local)
    arn = session.pipeline.find(execution)
    look = session.pipeline.look(arn)
    if look.has_ended:
        raise UsageError(
            f"execution {look.id} has ended already as {look.status}: there is nothing to stop"
        )
    session.pipeline.stop(arn)
    click.echo(f"stopping: {arn}")


@click.command()
@_environment
@click.argument("execution")
@click.argument("step")
@_local
@click.pass_obj
def logs(workspace: Workspace, environment: str, execution: str, step: str, local: bool) -> None:
    """Print what STEP of EXECUTION (an ARN, an id, or `latest`) has logged."""
    session = workspace.open(environment, local)
    look = session.pipeline.look(session.pipeline.find(execution))
    found = look.step(step)
    if found is None:
        started = ", ".join(known.name for known in look.steps) or "none"
        raise NotFoundError(
            f"execution {look.id} has not started a step {step!r}; started so far: {started}"
        )
    location = location_of(session.target, found)
    if location is None:
        raise NotFoundError(f"step {step} ({found.type}) runs no code that could log")
    for line in LogTail(session.target.client("logs"), location).new_lines():
        click.echo(line)


@click.command("invoke")
@_environment
@_local
@click.option(
    "--digit",
    "number",
    type=int,
    required=True,
    metavar="N",
    help="Which image of the MNIST test set to send, from 0.",
)
@click.option(
    "--endpoint",
    metavar="NAME",
    help="Which endpoint to ask; by default the newest of an execution, else the serving one.",
)
@click.pass_obj
def invoke_endpoint(
    workspace: Workspace, environment: str, local: bool, number: int, endpoint: str | None
) -> None:
    """Send test digit N to a running endpoint and print its answer as JSON."""
    digit = dataset.read_digit(workspace.root / dataset.FOLDER, number)
    session = workspace.open(environment, local)
    name = endpoint or invoke.find_endpoint(
        session.target, f"{session.names.pipeline}-", session.names.serving_endpoint
    )
    click.echo(json.dumps(asdict(invoke.ask(session.target, name, digit)), indent=2))


def _follow(session: Session, arn: str, parameters: dict[str, str]) -> None:
    try:
        with open_view() as view:
            view(planned(session.pipeline, parameters))
            follower = Follower(
                session.pipeline,
                arn,
                view,
                session.poll_s,
                logs_command=f"shoal logs {session.arguments}",
            )
            execution = follower.follow()
    except KeyboardInterrupt:
        arguments = f"{session.arguments} {arn.rpartition('/')[2]}"
        click.echo(
            f"it goes on: `shoal status {arguments}`; to end it: `shoal stop {arguments}`", err=True
        )
        raise
    follower.raise_unless_succeeded(execution)
    click.echo(f"execution {execution.id} succeeded")


def _print_execution(console: Console, execution: Execution) -> None:
    console.print(
        f"execution {execution.id}: {execution.status}"
        + (f": {execution.failure_reason}" if execution.failure_reason else "")
    )
    table = Table("step", "type", "status", "seconds", "reason", box=None)
    for step in execution.steps:
        seconds = step.seconds()
        table.add_row(
            step.name,
            step.type,
            step.status,
            "" if seconds is None else f"{seconds:.1f}",
            step.failure_reason,
        )
    console.print(table)
