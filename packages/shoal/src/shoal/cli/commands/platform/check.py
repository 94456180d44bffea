"""`shoal check`: what is wrong with the files that people write, and what soon will be."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import dataclass, field

import click

from shoal.cli.exit_codes import USAGE
from shoal.errors import UsageError
from shoal.launch.errors import Risk
from shoal.launch.notices import patch_warnings
from shoal.pipelines.checks.check import check as check_environment
from shoal.pipelines.checks.schedules import outdated
from shoal.settings.loading.consumers import require_own_names
from shoal.settings.loading.loader import (
    environment_file,
    environment_names,
    load_environment,
    workloads_of,
)
from shoal.settings.loading.workload import (
    FILE,
    folders_without_a_file,
    load_workload,
    require_workload,
    workload_file,
    workload_names,
)
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from shoal.verbs.dataset import upload_notices
from shoal.verbs.workspace import Workspace

_MARKS = ("may fail", "warning", "notice")
"""What a remark begins with, in the order in which they are printed."""


@dataclass
class _Findings:
    """What has been said of the files, and what is left to say when all are read."""

    mistakes: set[str] = field(default_factory=set)
    remarks: dict[tuple[str, str], list[Environment]] = field(default_factory=dict)
    """Mark and text to the environments, as one workload has them, that it is said of."""
    right: list[Environment] = field(default_factory=list)

    def tell(self, error: ConfigError) -> None:
        """Print the lines that are new: every environment of a workload has its mistakes."""
        for line in error.lines:
            if line not in self.mistakes:
                click.echo(line, err=True)
        self.mistakes |= set(error.lines)


@click.command()
@click.pass_obj
def check(workspace: Workspace) -> None:
    """Validate every environment file and every workload's file."""
    names = environment_names(workspace.root)
    if not names:
        raise UsageError(f"there are no environment files in {workspace.root / 'environments'}")
    findings = _Findings()
    for name in workload_names(workspace.root):
        try:
            _check_workload(workspace, name)
        except ConfigError as error:
            findings.tell(error)
    for name in names:
        try:
            workloads = workloads_of(name, workspace.root)
        except ConfigError as error:
            findings.tell(error)
            continue
        for workload in workloads:
            try:
                _check_view(workspace, name, workload, findings)
            except ConfigError as error:
                findings.tell(error)
    try:
        require_own_names(findings.right)
    except ConfigError as error:
        findings.tell(error)
    if findings.mistakes:  # remarks would bury them
        raise click.exceptions.Exit(USAGE)
    for folder in folders_without_a_file(workspace.root):
        click.echo(f"{folder}/: notice: has no {FILE}, so nothing runs it; write one")
    for mark in _MARKS:
        for (its_mark, text), environments in findings.remarks.items():
            if its_mark == mark:
                click.echo(f"{mark} ({_titles(environments, findings.right)}): {text}")


def _check_workload(workspace: Workspace, name: str) -> None:
    workload = load_workload(name, workspace.root)
    count = len(workload.smoke_test.requests) if workload.smoke_test else 0
    asked = f"{count} request{'s' if count > 1 else ''}" if count else "no endpoint"
    click.echo(f"{workload_file(name)}: ok ({asked})")


def _check_view(workspace: Workspace, name: str, workload: str, findings: _Findings) -> None:
    """Check the environment as one workload has it; raise ConfigError."""
    environment = load_environment(name, workspace.root, workload=workload)
    checked = check_environment(environment, root=workspace.root)
    require_workload(environment.workload, workspace.root)
    findings.right.append(environment)
    training = environment.training
    start = f"{workload}: " if environment.workloads else ""
    click.echo(
        f"{environment_file(name)}: {start}ok ({checked.launch.case.strategy} on"
        f" {training.instance_count} x"
        f" {training.instance_type})"
    )
    today = datetime.datetime.now(tz=datetime.UTC).date()
    serves = environment.endpoint is not None and environment.endpoint.image_uri is None
    patches = patch_warnings(checked.launch.case, today, serves=serves)
    remarks = [("warning", each) for each in (*patches, *outdated(environment, today))]
    for each in (*checked.notices, *upload_notices(environment, workspace.root)):
        remarks.append(("may fail" if isinstance(each, Risk) else "notice", each))
    for remark in remarks:
        findings.remarks.setdefault(remark, []).append(environment)


def _titles(environments: list[Environment], right: list[Environment]) -> str:
    """Return the environments' names, each with its workload unless all its workloads are meant."""
    counts = Counter(each.name for each in environments)
    all_counts = Counter(each.name for each in right)
    return ", ".join(
        dict.fromkeys(
            each.name if counts[each.name] == all_counts[each.name] else each.title
            for each in environments
        )
    )
