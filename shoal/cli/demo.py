"""`shoal demo`: options, and what is printed at the end."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from shoal.cli.exit_codes import FAILED, INTERRUPTED
from shoal.cli.interrupts import interrupted_once
from shoal.cli.view import open_view
from shoal.demo.gitops.phases import run_gitops
from shoal.demo.gitops.report import print_result as print_gitops_result
from shoal.demo.pipeline.phases import Choice, run_demo
from shoal.demo.pipeline.report import message_of, print_result, summary_of_file
from shoal.verbs.parameters import parse_parameters
from shoal.verbs.workspace import Workspace


@click.command()
@click.argument("environment", metavar="[ENV]", default="dev")
@click.argument("workload", metavar="[WORKLOAD]", required=False)
@click.option(
    "--strategy",
    metavar="NAME",
    help="Another way to distribute the training; `shoal strategies` lists them.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the report goes (demo-out).",
)
@click.option(
    "--parameter",
    "-p",
    "parameters",
    multiple=True,
    metavar="KEY=VALUE",
    help="A pipeline parameter; may be repeated.",
)
@click.option(
    "--enforce-iam",
    is_flag=True,
    help="Refuse what the policies of a caller's role do not allow, as AWS does.",
)
@click.option(
    "--gitops",
    is_flag=True,
    help="Three releases from commit to prod in three accounts: canary, rollback, revert. With"
    " WORKLOAD, one of it beside them.",
)
@click.pass_obj
def demo(
    workspace: Workspace,
    environment: str,
    workload: str | None,
    strategy: str | None,
    output: Path | None,
    parameters: tuple[str, ...],
    enforce_iam: bool,
    gitops: bool,
) -> None:
    """Run the whole of it on this machine: deploy ENV (dev), upload its data, train, evaluate,
    register, serve, and tear down.
    """
    if gitops:
        if environment != "dev" or strategy or parameters:
            raise click.UsageError(
                "--gitops goes from dev to staging to prod; it takes no other ENV, no --strategy"
                " and no --parameter"
            )
        _demo_gitops(workspace, output, workload, enforce_iam=enforce_iam)
        return
    folder = (output or workspace.root / "demo-out").resolve()
    values = parse_parameters(parameters)
    choice = Choice(environment, strategy, values, enforce_iam, workload)
    with open_view() as view, interrupted_once() as shield:
        outcome = run_demo(workspace, choice, folder, view, shield)
    print_result(Console(soft_wrap=True), summary_of_file(folder), folder)
    for failure in outcome.failures:
        click.echo(f"shoal demo: {failure.phase}: {message_of(failure)}", err=True)
    if outcome.failures:
        click.echo(f"all logs: {folder / 'logs'}", err=True)
        raise click.exceptions.Exit(INTERRUPTED if outcome.interrupted else FAILED)


def _demo_gitops(
    workspace: Workspace,
    output: Path | None,
    second_workload: str | None,
    *,
    enforce_iam: bool,
) -> None:
    folder = (output or workspace.root / "demo-out" / "gitops").resolve()
    with open_view() as view, interrupted_once() as shield:
        outcome = run_gitops(
            workspace,
            folder,
            view,
            shield,
            enforce_iam=enforce_iam,
            second_workload=second_workload,
        )
    for failure in outcome.failures:
        click.echo(f"shoal demo: {failure.phase}: {message_of(failure)}", err=True)
    print_gitops_result(Console(soft_wrap=True), summary_of_file(folder), folder)
    if outcome.failures:
        raise click.exceptions.Exit(INTERRUPTED if outcome.interrupted else FAILED)
