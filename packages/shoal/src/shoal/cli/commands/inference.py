"""`shoal invoke` and `shoal score`: one request to an endpoint, or rows that an approved model
answers in a batch.
"""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import click

from shoal.aws.execution import Execution
from shoal.cli.answers import Verdict, answers, tell
from shoal.cli.commands.executions import keep_page
from shoal.cli.options import session_command
from shoal.cli.view import open_view
from shoal.errors import UsageError
from shoal.settings.loading.workload import load_workload, workload_folder
from shoal.settings.parsing.errors import one_line
from shoal.verbs import score as scoring
from shoal.verbs.follow import Follower
from shoal.verbs.invoke import find_endpoint, send
from shoal.verbs.invoke import stream as stream_answer
from shoal.verbs.workspace import Session

_TYPES = {".json": "application/json", ".csv": "text/csv", ".npy": "application/x-npy"}


@click.command()
@session_command
@click.option(
    "--body",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Which file to send, as it is; by default the first request of the workload's smoke test.",
)
@click.option(
    "--content-type",
    metavar="TYPE",
    help="Media type of the file; by default what .json, .csv and .npy mean.",
)
@click.option(
    "--accept",
    default="application/json",
    show_default=True,
    metavar="TYPE",
    help="Media type of the answer, which is printed as it is.",
)
@click.option(
    "--endpoint",
    metavar="NAME",
    help="Which endpoint to ask; by default the newest of an execution, else the serving one.",
)
@click.option(
    "--stream",
    is_flag=True,
    help="Print the answer while it arrives; the model must send it in parts.",
)
@answers(endpoint=str, parts=list[str])
def invoke(
    session: Session,
    body: Path | None,
    content_type: str | None,
    accept: str,
    endpoint: str | None,
    stream: bool,
) -> None:
    """Send a file to a running endpoint and print its answer."""
    if session.environment.endpoint is None and endpoint is None:
        raise UsageError(
            f"{session.environment.title} only trains: `endpoint` is none, so nothing answers"
        )
    name = endpoint or find_endpoint(
        session.target, f"{session.names.pipeline}-", session.names.serving_endpoint
    )
    if body is None:
        requests = load_workload(session.environment.workload, session.workspace.root).requests
        if not requests:
            raise UsageError("give --body FILE: the workload has no request of its own")
        request = requests[0]
        body = workload_folder(session.environment.workload, session.workspace.root) / request.body
        content_type = content_type or request.content_type
    kind = content_type or _TYPES.get(body.suffix, "application/octet-stream")
    if stream:
        for part in stream_answer(session.target, name, body.read_bytes(), kind, accept):
            tell(part, nl=False, endpoint=name, parts=[part.decode(errors="replace")])
        return
    answer = send(session.target, name, body.read_bytes(), kind, accept)
    text = answer.decode(errors="replace")
    tell(answer, nl=not answer.endswith(b"\n"), endpoint=name, parts=[text])


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
        _print_scored(session, execution)
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
    _print_scored(session, execution)


def _print_scored(session: Session, execution: Execution) -> None:
    scored = scoring.results(session, execution)
    ended_at = scored.scored_at and scored.scored_at.astimezone(UTC)
    at = ended_at and ended_at.isoformat(timespec="milliseconds")
    tell(version=scored.version, results=scored.uri, rows=scored.rows, scored_at=at)
    tell("\n".join(map(one_line, scored.lines)))
