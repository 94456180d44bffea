"""`shoal invoke`: one request to an endpoint."""

from pathlib import Path

import click

from shoal.cli.answers import answers, tell
from shoal.cli.options import flag, session_command
from shoal.errors import UsageError
from shoal.settings.loading.workload import load_workload, workload_folder
from shoal.verbs.inference import find_endpoint, send
from shoal.verbs.inference import stream as stream_answer
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
@flag("--stream", help="Print the answer while it arrives; the model must send it in parts.")
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
        first = requests[0]
        body = workload_folder(session.environment.workload, session.workspace.root) / first.body
        content_type = content_type or first.content_type
    kind = content_type or _TYPES.get(body.suffix, "application/octet-stream")
    request = session.target, name, body.read_bytes(), kind, accept
    for part in stream_answer(*request) if stream else (send(*request),):
        ends_line = stream or part.endswith(b"\n")
        tell(part, nl=not ends_line, endpoint=name, parts=[part.decode(errors="replace")])
