"""`shoal local up | down | status`: the emulator in the background, one per checkout."""

from __future__ import annotations

import shlex

import click

from cli.emulator_process import Running
from cli.workspace import Workspace
from config.loader import load_environment
from lifecycle.errors import UsageError
from lifecycle.target import loopback_variables


@click.group()
def local() -> None:
    """AWS on this machine: the emulator."""


@local.command()
@click.argument("environment", metavar="[ENV]", default="dev")
@click.option("--enforce-iam", is_flag=True, help="Refuse what the policies of a caller's role do not allow, as AWS does.")
@click.option(
    "--hosting-speed",
    type=click.FloatRange(1, 3600),
    help="60 makes a minute of waiting and baking of a deployment to an endpoint a second.",
)
@click.pass_obj
def up(workspace: Workspace, environment: str, enforce_iam: bool, hosting_speed: float | None) -> None:
    """Start the emulator in the background, as the account and region of ENV (dev), with its `local.images`."""
    settings = load_environment(environment, workspace.root)
    running = workspace.emulator.find()
    if running is None:
        start, images = workspace.emulator.start, settings.local.images
        running = start(settings.account, settings.region, images, enforce_iam=enforce_iam, hosting_speed=hosting_speed or 1.0)
        click.echo(f"started: {_described(running)}")
    elif enforce_iam and not running.enforces_iam:
        raise UsageError("the emulator runs without --enforce-iam; run `shoal local down`, then `shoal local up --enforce-iam`")
    elif hosting_speed not in {None, running.hosting_speed}:
        raise UsageError(
            f"the emulator runs with --hosting-speed {running.hosting_speed:g}; "
            f"run `shoal local down`, then `shoal local up --hosting-speed {hosting_speed:g}`"
        )
    else:
        click.echo(f"running already: {_described(running)}")
    if running.notice:
        click.echo(running.notice)
    click.echo("for the aws CLI and your own boto3 code:")
    variables = loopback_variables(running.endpoint) | {"AWS_DEFAULT_REGION": running.region}
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        click.echo(f"  export {name}={shlex.quote(variables[name])}")


@local.command()
@click.pass_obj
def down(workspace: Workspace) -> None:
    """Stop the emulator and everything it runs, and remove its state."""
    emulator = workspace.emulator
    if not emulator.state.exists():
        click.echo("no emulator is running")
        return
    emulator.shut_down()
    click.echo("stopped; its processes, port and files are gone")


@local.command()
@click.pass_obj
def status(workspace: Workspace) -> None:
    """Say whether the emulator runs, and where. Exit code 1 if it does not."""
    running = workspace.emulator.find()
    if running is None:
        click.echo("no emulator is running; start one with `shoal local up`")
        raise click.exceptions.Exit(1)
    click.echo(f"running: {_described(running)}")


def _described(running: Running) -> str:
    enforcing = ", policies enforced" if running.enforces_iam else ""
    faster = f", deployments to endpoints {running.hosting_speed:g} times as fast" if running.hosting_speed != 1 else ""
    return f"{running.endpoint} (process {running.pid}), account {running.account}, {running.region}{enforcing}{faster}"
