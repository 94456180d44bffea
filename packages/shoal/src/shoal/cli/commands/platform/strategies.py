"""`shoal plan --strategies`: every way to distribute training that `--strategy` can lay over."""

from __future__ import annotations

import click

from shoal.cli.columns import columns
from shoal.launch import resolve, tables
from shoal.settings.loading.loader import load_environment, strategy_names
from shoal.settings.parsing.errors import ConfigError
from shoal.verbs.workspace import Workspace

_HEAD = ("name", "framework", "instances", "launcher", "what the toolkit starts")


def print_strategies(workspace: Workspace, environment: str, workload: str | None) -> None:
    """Print the overlays in environments/strategies/ as they look when laid over an environment."""
    load_environment(environment, workspace.root, workload=workload)
    names = strategy_names(workspace.root)
    rows = [_HEAD, *(_row(workspace, environment, workload, name) for name in names)]
    click.echo("\n".join(columns(rows)))
    click.echo("\nrun one: `shoal demo --strategy NAME`; about each: docs/strategies/")


def _row(
    workspace: Workspace, environment: str, workload: str | None, name: str
) -> tuple[str, ...]:
    try:
        settings = load_environment(environment, workspace.root, name, workload)
        contract = resolve(settings.training, settings.region).contract
    except ConfigError as error:
        reasons = "; ".join(problem.line("") for problem in error.problems)
        return name, "-", "-", "-", f"does not fit: {reasons}"
    training = settings.training
    row = tables.strategy(training.strategy)
    framework = f"{training.framework} {training.framework_version}"
    instances = f"{training.instance_count} x {training.instance_type}"
    starts = (
        row.starts if contract.launcher == row.launcher else f"{contract.launcher} on every host"
    )
    return name, framework, instances, contract.launcher, starts
