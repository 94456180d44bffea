"""`shoal dashboard`: an environment's CloudWatch dashboard as pictures, for reports."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.options import environment_argument, local_option
from shoal.verbs.dashboard import write_images
from shoal.verbs.workspace import Workspace


@click.command()
@environment_argument
@local_option
@click.option(
    "--hours",
    type=click.FloatRange(min=0, min_open=True, max=24 * 14),
    default=3.0,
    show_default=True,
    help="How far back.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder for the PNG files (.shoal/dashboard/ENV).",
)
@click.pass_obj
def dashboard(
    workspace: Workspace,
    environment: str,
    workload: str | None,
    local: bool,
    hours: float,
    output: Path | None,
) -> None:
    """Draw what the CloudWatch dashboard of ENV shows.

    CloudWatch draws one PNG file for each graph; the emulator draws none.
    """
    session = workspace.open(environment, local, workload)
    folder = output or workspace.root.joinpath(".shoal", "dashboard", *session.title.split())
    for path in write_images(session.target, session.names.dashboard, hours, folder):
        click.echo(f"written: {path}")
