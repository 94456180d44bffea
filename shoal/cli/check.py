"""`shoal check`: what is wrong with the environment files, and what soon will be."""

from __future__ import annotations

import datetime

import click

from config.errors import ConfigError
from config.loader import environment_file, environment_names, load_environment
from pipelines.check import check as check_environment
from pipelines.launch.notices import patch_warnings
from pipelines.schedules import outdated
from shoal.cli.exit_codes import USAGE
from shoal.verbs.errors import UsageError
from shoal.verbs.workspace import Workspace


@click.command()
@click.pass_obj
def check(workspace: Workspace) -> None:
    """Validate every environment file."""
    names = environment_names(workspace.root)
    if not names:
        raise UsageError(f"there are no environment files in {workspace.root / 'environments'}")
    failed = [name for name in names if not _is_valid(workspace, name)]
    if failed:
        raise click.exceptions.Exit(USAGE)


def _is_valid(workspace: Workspace, name: str) -> bool:
    try:
        environment = load_environment(name, workspace.root)
        checked = check_environment(environment, root=workspace.root)
    except ConfigError as error:
        click.echo(str(error), err=True)
        return False
    training = environment.training
    click.echo(
        f"{environment_file(name)}: ok ({checked.launch.case.strategy} on"
        f" {training.instance_count} x"
        f" {training.instance_type})"
    )
    for notice in checked.notices:
        click.echo(f"{environment_file(name)}: notice: {notice}")
    today = datetime.datetime.now(tz=datetime.UTC).date()
    patches = patch_warnings(checked.launch.case, today)
    for warning in (*patches, *outdated(environment, today)):
        click.echo(f"{environment_file(name)}: warning: {warning}")
    return True
