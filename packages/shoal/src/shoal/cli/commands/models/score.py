"""`shoal score`: rows that an approved model answers in a batch."""

from __future__ import annotations

from datetime import UTC

import click

from shoal.aws.execution import Execution
from shoal.cli.answers import Verdict, answers, tell
from shoal.cli.commands.models.executions import keep_page
from shoal.cli.options import session_command
from shoal.cli.view import open_view
from shoal.settings.parsing.errors import one_line
from shoal.verbs import score as scoring
from shoal.verbs.follow import Follower
from shoal.verbs.workspace import Session


@click.command()
@session_command
@click.option(
    "--version",
    type=click.IntRange(1),
    metavar="N",
    help="This approved version instead of the file's, or the newest.",
)
@click.option(
    "--show",
    "shown",
    metavar="EXECUTION",
    help="Start nothing: show what EXECUTION (an ARN, an id, or the `latest` that did) scored.",
)
@answers(
    execution=str,
    status=str | None,
    verdict=Verdict | None,
    version=str | None,
    results=str | None,
    rows=list[str],
    scored_at=str | None,
    page=str | None,
)
def score(session: Session, version: int | None, shown: str | None) -> None:
    """Score the rows of ENV's dataset with an approved model. Ctrl-C leaves it running."""
    if shown:
        if version:
            raise click.UsageError("--show and --version exclude each other")
        execution, notice = scoring.scored_by(session, shown)
        tell(execution=execution.arn, status=execution.status)
        _print(session, execution)
        if notice:
            click.echo(notice, err=True)
        return
    arn, own = scoring.start(session, version), session.scoring
    tell(f"started: {arn}", execution=arn)
    with open_view() as view:
        follower = Follower(own.pipeline, arn, view, own.poll_s)
        execution = follower.follow()
    tell(status=execution.status)
    keep_page(own, arn)
    follower.raise_unless_succeeded(execution)
    _print(session, execution)


def _print(session: Session, execution: Execution) -> None:
    scored = scoring.results(session, execution)
    ended_at = scored.scored_at and scored.scored_at.astimezone(UTC)
    at = ended_at and ended_at.isoformat(timespec="milliseconds")
    tell(version=scored.version, results=scored.uri, rows=scored.rows, scored_at=at)
    tell("\n".join(map(one_line, scored.lines)))
