"""`shoal local up | down | status`: the emulator in the background, one per checkout."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from config.loader import load_environment
from config.settings import Environment
from shoal.verbs.errors import UsageError
from shoal.verbs.local_server import Running
from shoal.verbs.target import local_access_key, loopback_variables
from shoal.verbs.workspace import Workspace


@click.group()
def local() -> None:
    """AWS on this machine: the emulator."""


@local.command()
@click.argument("environments", metavar="[ENV]...", nargs=-1)
@click.option(
    "--enforce-iam",
    is_flag=True,
    help="Refuse what the policies of a caller's role do not allow, as AWS does.",
)
@click.option(
    "--hosting-speed",
    type=click.FloatRange(1, 3600),
    help="60 makes a minute of waiting and baking of a deployment to an endpoint a second.",
)
@click.pass_obj
def up(
    workspace: Workspace,
    environments: tuple[str, ...],
    enforce_iam: bool,
    hosting_speed: float | None,
) -> None:
    """Start the emulator in the background, as the accounts and the region of each ENV (dev), with
    their `local.images`.
    """
    wanted = [load_environment(name, workspace.root) for name in environments or ("dev",)]
    accounts = tuple(dict.fromkeys(each.account for each in wanted))
    region = _one_region(wanted)
    running = workspace.emulator.find()
    if running is None:
        start, images = workspace.emulator.start, _images(wanted)
        first, *others = accounts
        running = start(
            first,
            region,
            images,
            enforce_iam=enforce_iam,
            hosting_speed=hosting_speed or 1.0,
            others=others,
        )
        click.echo(f"started: {_described(running)}")
    else:
        _require_fit(running, wanted, enforce_iam, hosting_speed)
        click.echo(f"running already: {_described(running)}")
    if running.notice:
        click.echo(running.notice)
    click.echo("for the aws CLI and your own boto3 code:")
    variables = loopback_variables(running.endpoint, accounts[0]) | {
        "AWS_DEFAULT_REGION": running.region
    }
    for name in (
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_DEFAULT_REGION",
    ):
        click.echo(f"  export {name}={shlex.quote(variables[name])}")
    for account in accounts[1:]:
        names = ", ".join(each.name for each in wanted if each.account == account)
        click.echo(f"for {names} instead: export AWS_ACCESS_KEY_ID={local_access_key(account)}")


def _one_region(wanted: Sequence[Environment]) -> str:
    """Raises UsageError for environments of several regions: one emulator plays one."""
    regions = {each.region: each.name for each in wanted}
    if len(regions) > 1:
        which = ", ".join(f"{each.name} is for {each.region}" for each in wanted)
        raise UsageError(f"one emulator plays one region: {which}; name environments of one region")
    return wanted[0].region


def _images(wanted: Sequence[Environment]) -> dict[str, str]:
    """Runtimes by patterns of images.

    Raises UsageError where two environments mean different ones by the same pattern.
    """
    images: dict[str, str] = {}
    for environment in wanted:
        for pattern, runtime in environment.local.images.items():
            if images.setdefault(pattern, runtime) != runtime:
                raise UsageError(
                    f"`local.images` of {environment.name} says {runtime} for {pattern}, another"
                    f" environment {images[pattern]}"
                )
    return images


def _require_fit(
    running: Running, wanted: Sequence[Environment], enforce_iam: bool, hosting_speed: float | None
) -> None:
    """Raises UsageError when the emulator that runs is not the one that was asked for."""
    names = " ".join(each.name for each in wanted)
    missing = [
        each.name
        for each in wanted
        if each.account not in running.accounts or each.region != running.region
    ]
    if missing:
        message = f"the emulator plays {running.played}, not what {', '.join(missing)} is for"
        raise UsageError(f"{message}; run `shoal local down`, then `shoal local up {names}`")
    if enforce_iam and not running.enforces_iam:
        raise UsageError(
            "the emulator runs without --enforce-iam; run `shoal local down`, then `shoal local up"
            " --enforce-iam`"
        )
    if hosting_speed not in {None, running.hosting_speed}:
        raise UsageError(
            f"the emulator runs with --hosting-speed {running.hosting_speed:g}; "
            f"run `shoal local down`, then `shoal local up --hosting-speed {hosting_speed:g}`"
        )


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
    faster = (
        f", deployments to endpoints {running.hosting_speed:g} times as fast"
        if running.hosting_speed != 1
        else ""
    )
    return f"{running.endpoint} (process {running.pid}), {running.played}{enforcing}{faster}"
