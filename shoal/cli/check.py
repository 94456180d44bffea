"""`shoal check`: what is wrong with the files that people write, and what soon will be."""

from __future__ import annotations

import datetime

import click

from config.errors import ConfigError
from config.loader import (
    environment_file,
    environment_names,
    load_environment,
    workloads_of,
)
from config.own_names import require_own_names
from config.settings import Environment
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
    right: list[Environment] = []
    for name in names:
        told |= _check_environment(workspace, name, told, right)
    try:
        require_own_names(right)
    except ConfigError as error:
        told |= _tell(error, told)
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


def _check_environment(
    workspace: Workspace, name: str, told: set[str], right: list[Environment]
) -> set[str]:
    """Return the mistakes, which are printed unless they are `told`; add to `right` what has
    none.
    """
    try:
        workloads = workloads_of(name, workspace.root)
    except ConfigError as error:
        return _tell(error, told)
    mistakes: set[str] = set()
    remarks: dict[str, list[str]] = {}
    for workload in workloads:
        mistakes |= _check_view(workspace, name, workload, told | mistakes, remarks, right)
    for remark, whose in remarks.items():
        start = "" if len(whose) == len(workloads) else f"{', '.join(whose)}: "
        click.echo(f"{environment_file(name)}: {start}{remark}")
    return mistakes


def _check_view(
    workspace: Workspace,
    name: str,
    workload: str,
    told: set[str],
    remarks: dict[str, list[str]],
    right: list[Environment],
) -> set[str]:
    """Return the mistakes of the environment as one workload has it; add what else is to be said of
    it to `remarks`.
    """
    try:
        environment = load_environment(name, workspace.root, workload=workload)
        checked = check_environment(environment, root=workspace.root)
        require_workload(environment.workload, workspace.root)
    except ConfigError as error:
        return _tell(error, told)
    right.append(environment)
    training = environment.training
    start = f"{workload}: " if environment.workloads else ""
    click.echo(
        f"{environment_file(name)}: {start}ok ({checked.launch.case.strategy} on"
        f" {training.instance_count} x"
        f" {training.instance_type})"
    )
    today = datetime.datetime.now(tz=datetime.UTC).date()
    serves = environment.endpoint is not None
    patches = patch_warnings(checked.launch.case, today, serves=serves)
    notices = (*checked.notices, *upload_notices(environment, workspace.root))
    for remark in (
        *(f"notice: {each}" for each in notices),
        *(f"warning: {each}" for each in (*patches, *outdated(environment, today))),
    ):
        remarks.setdefault(remark, []).append(workload)
    return set()
