"""`shoal dashboard`: an environment's CloudWatch dashboard as a picture, for reports and for
emulators, which have no console.
"""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.options import environment_argument, local_option
from shoal.verbs import dashboard as dashboards
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
    type=click.Path(path_type=Path, dir_okay=False),
    help="The PNG file (ENV-dashboard.png).",
)
@click.pass_obj
def dashboard(
    workspace: Workspace, environment: str, local: bool, hours: float, output: Path | None
) -> None:
    """Draw what the CloudWatch dashboard of ENV shows."""
    from shoal.cli.dashboard_picture import draw  # matplotlib takes half a second to import

    session = workspace.open(environment, local)
    name = session.names.dashboard
    graphs = dashboards.read(session.target, name, hours)
    path = output or workspace.root / f"{environment}-dashboard.png"
    draw(graphs, f"{name}: the last {hours:g} hours", path)
    click.echo(f"written: {path}")
    empty = [graph.title for graph in graphs if not graph.lines]
    if empty:
        click.echo(f"nothing was measured for: {', '.join(empty)}")
