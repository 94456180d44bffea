"""`shoal check`: what is wrong with the files that people write, and what soon will be."""

from __future__ import annotations

import datetime

import click

from config.errors import ConfigError
from config.loader import environment_file, environment_names, load_environment
from config.workload import (
    FILE,
    folders_without_a_file,
    load_workload,
    require_workload,
    workload_file,
    workload_names,
)
from pipelines.check import check as check_environment
from pipelines.launch.notices import patch_warnings
from pipelines.schedules import outdated
from shoal.cli.exit_codes import USAGE
from shoal.verbs.dataset import upload_notices
from shoal.verbs.errors import UsageError
from shoal.verbs.workspace import Workspace


@click.command()
@click.pass_obj
def check(workspace: Workspace) -> None:
    """Validate every environment file and every workload's file."""
    names = environment_names(workspace.root)
    if not names:
        raise UsageError(f"there are no environment files in {workspace.root / 'environments'}")
    told: set[str] = set()
    for name in workload_names(workspace.root):
        told |= _check_workload(workspace, name)
    for folder in folders_without_a_file(workspace.root):
        click.echo(f"{folder}/: notice: has no {FILE}, so nothing runs it; write one")
    for name in names:
        told |= _check_environment(workspace, name, told)
    if told:
        raise click.exceptions.Exit(USAGE)


def _check_workload(workspace: Workspace, name: str) -> set[str]:
    """Return the mistakes, which are printed."""
    try:
        workload = load_workload(name, workspace.root)
    except ConfigError as error:
        return _tell(error, set())
    count = len(workload.smoke_test.requests) if workload.smoke_test else 0
    asked = f"{count} request{'s' if count > 1 else ''}" if count else "no endpoint"
    click.echo(f"{workload_file(name)}: ok ({asked})")
    return set()


def _tell(error: ConfigError, told: set[str]) -> set[str]:
    """Print the lines that are not `told` yet: every environment of a workload has its mistakes."""
    for line in error.lines:
        if line not in told:
            click.echo(line, err=True)
    return set(error.lines)


def _check_environment(workspace: Workspace, name: str, told: set[str]) -> set[str]:
    """Return the mistakes, which are printed unless they are `told`."""
    try:
        environment = load_environment(name, workspace.root)
        checked = check_environment(environment, root=workspace.root)
        require_workload(environment.workload, workspace.root)
    except ConfigError as error:
        return _tell(error, told)
    training = environment.training
    click.echo(
        f"{environment_file(name)}: ok ({checked.launch.case.strategy} on"
        f" {training.instance_count} x"
        f" {training.instance_type})"
    )
    for notice in (*checked.notices, *upload_notices(environment, workspace.root)):
        click.echo(f"{environment_file(name)}: notice: {notice}")
    today = datetime.datetime.now(tz=datetime.UTC).date()
    serves = environment.endpoint is not None
    patches = patch_warnings(checked.launch.case, today, serves=serves)
    for warning in (*patches, *outdated(environment, today)):
        click.echo(f"{environment_file(name)}: warning: {warning}")
    return set()
