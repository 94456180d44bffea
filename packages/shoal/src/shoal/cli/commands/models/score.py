"""`shoal score`: rows that an approved model answers in a batch."""

from __future__ import annotations

import click

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
@answers(
    execution=str,
    status=str | None,
    verdict=Verdict | None,
    version=str | None,
    results=str | None,
    rows=list[str],
    page=str | None,
)
def score(session: Session, version: int | None) -> None:
    """Score the rows of ENV's dataset with an approved model. Ctrl-C leaves it running."""
    arn, own = scoring.start(session, version), session.scoring
    tell(f"started: {arn}", execution=arn)
    with open_view() as view:
        follower = Follower(own.pipeline, arn, view, own.poll_s)
        execution = follower.follow()
    tell(status=execution.status)
    keep_page(own, arn)
    follower.raise_unless_succeeded(execution)
    scored = scoring.results(own, execution)
    tell(version=scored.version, results=scored.uri, rows=scored.rows)
    tell("\n".join(map(one_line, scored.lines)))
