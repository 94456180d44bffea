"""`shoal destroy --leftovers`: delete now what executions left, instead of
waiting for the next quarter of an hour.
"""

from __future__ import annotations

import click

from shoal.errors import LeftBehindError
from shoal.verbs.destroy import sweep as sweeper
from shoal.verbs.destroy.sweep import Swept
from shoal.verbs.workspace import Session


def sweep_whole(session: Session, *, dry_run: bool) -> None:
    """Delete endpoints, configurations and models that executions left for longer than
    `endpoint.ttl_minutes`; raise LeftBehindError where not all could be.
    """
    if problems := [each for one in session.each for each in _sweep(one, dry_run=dry_run)]:
        raise LeftBehindError("; ".join(problems))


def _sweep(session: Session, *, dry_run: bool) -> list[str]:
    """Sweep one workload, print what was done, and return what was not."""
    result = sweeper.sweep(session.target, session.names.function("sweep"), dry_run=dry_run)
    if session.environment.workloads:
        click.echo(f"{session.title}:")
    for line in _lines(result, session.environment.ttl_minutes):
        click.echo(line)
    problems = []
    if result.pending:
        problems.append(
            f"not deleted yet: what executions {', '.join(result.pending)} left; sweep again in a"
            " few minutes"
        )
    if not result.complete:
        problems.append(
            f"not everything was looked at: {' and '.join(result.unread) or 'tags'} could not be"
            f" read, the log of {session.names.function('sweep')} says why"
        )
    return problems


def _lines(result: Swept, ttl_minutes: int) -> list[str]:
    lines = [
        f"endpoints: {result.endpoints}, of which {result.endpoints_past_ttl} older than"
        f" {ttl_minutes} minutes"
    ]
    if result.kept:
        lines.append(f"kept, running or younger: executions {', '.join(result.kept)}")
    if result.dry_run:
        lines.append(
            "would be removed:"
            f" {'what executions ' + ', '.join(result.past_ttl) + ' left' if result.past_ttl else 'nothing'}"  # noqa: E501
        )
    else:
        lines.append(f"deleted: {', '.join(result.deleted) or 'nothing'}")
    return lines
