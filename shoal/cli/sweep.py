"""`shoal sweep`: what executions left behind for too long is found and deleted now, not only every
quarter of an hour.
"""

from __future__ import annotations

import click

from shoal.cli.options import environment_argument, local_option
from shoal.verbs import sweep as sweeper
from shoal.verbs.errors import LeftBehindError
from shoal.verbs.sweep import Swept
from shoal.verbs.workspace import Workspace


@click.command()
@environment_argument
@local_option
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@click.pass_obj
def sweep(workspace: Workspace, environment: str, local: bool, dry_run: bool) -> None:
    """Delete endpoints, configurations and models that executions of ENV left for longer than
    `endpoint.ttl_minutes`.
    """
    session = workspace.open(environment, local)
    found = sweeper.sweep(session.target, session.names.function("sweep"), dry_run=dry_run)
    for line in _told(found, session.environment.endpoint.ttl_minutes):
        click.echo(line)
    open_ends = []
    if found.pending:
        open_ends.append(
            f"not deleted yet: what executions {', '.join(found.pending)} left; sweep again in a"
            " few minutes"
        )
    if not found.complete:
        open_ends.append(
            f"not everything was looked at: {' and '.join(found.unread) or 'tags'} could not be"
            f" read, the log of {session.names.function('sweep')} says why"
        )
    if open_ends:
        raise LeftBehindError("; ".join(open_ends))


def _told(found: Swept, ttl_minutes: int) -> list[str]:
    lines = [
        f"endpoints: {found.endpoints}, of which {found.endpoints_past_ttl} older than"
        f" {ttl_minutes} minutes"
    ]
    if found.kept:
        lines.append(f"kept, running or younger: executions {', '.join(found.kept)}")
    if found.dry_run:
        lines.append(
            "would be removed:"
            f" {'what executions ' + ', '.join(found.past_ttl) + ' left' if found.past_ttl else 'nothing'}"  # noqa: E501
        )
    else:
        lines.append(f"deleted: {', '.join(found.deleted) or 'nothing'}")
    return lines
