"""`shoal dashboard`: an environment's CloudWatch dashboard as pictures, for reports."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.options import session_command
from shoal.verbs.dashboard import write_images
from shoal.verbs.workspace import Session


@click.command()
@session_command
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
def dashboard(session: Session, hours: float, output: Path | None) -> None:
    """Draw what the CloudWatch dashboard of ENV shows.

    CloudWatch draws one PNG file for each graph; the emulator draws none.
    """
    folder = output or session.workspace.root.joinpath(
        ".shoal", "dashboard", *session.title.split()
    )
    for path in write_images(session.target, session.names.dashboard, hours, folder):
        click.echo(f"written: {path}")
