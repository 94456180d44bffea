"""`shoal check`: what is wrong with the files that people write, and what soon will be."""

from __future__ import annotations

import datetime

import click

from config.errors import ConfigError
from config.loader import environment_file, environment_names, load_environment
from config.workload import load_workload, require_workload, workload_file, workload_names
from pipelines.check import check as check_environment
from pipelines.launch.notices import patch_warnings
from pipelines.schedules import outdated
from shoal.cli.exit_codes import USAGE
from shoal.verbs.errors import UsageError
from shoal.verbs.workspace import Workspace


@click.command()
@click.pass_obj
def check(workspace: Workspace) -> None:
    """Validate every environment file and every workload's file."""
    names = environment_names(workspace.root)
    if not names:
        raise UsageError(f"there are no environment files in {workspace.root / 'environments'}")
    workloads = [_is_valid_workload(workspace, name) for name in workload_names(workspace.root)]
    environments = [_is_valid(workspace, name) for name in names]
    if not all((*workloads, *environments)):
        raise click.exceptions.Exit(USAGE)


def _is_valid_workload(workspace: Workspace, name: str) -> bool:
    try:
        workload = load_workload(name, workspace.root)
    except ConfigError as error:
        click.echo(str(error), err=True)
        return False
    count = len(workload.smoke_test.requests)
    click.echo(f"{workload_file(name)}: ok ({count} request{'s' if count > 1 else ''})")
    return True


def _is_valid(workspace: Workspace, name: str) -> bool:
    try:
        environment = load_environment(name, workspace.root)
        checked = check_environment(environment, root=workspace.root)
        require_workload(environment.workload, workspace.root)
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
