"""`shoal invoke`: send one request to an endpoint."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from shoal.cli.options import environment_argument, local_option
from shoal.verbs import dataset, invoke
from shoal.verbs.workspace import Workspace

_TYPES = {".json": "application/json", ".csv": "text/csv", ".npy": "application/x-npy"}


@click.command("invoke")
@environment_argument
@local_option
@click.option(
    "--body",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Which file to send, as it is; the answer is printed as it is.",
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
    help="Media type of the answer to --body.",
)
@click.option(
    "--digit",
    "number",
    type=int,
    metavar="N",
    help="Which image of the MNIST test set to send instead, from 0.",
)
@click.option(
    "--endpoint",
    metavar="NAME",
    help="Which endpoint to ask; by default the newest of an execution, else the serving one.",
)
@click.pass_obj
def invoke_endpoint(
    workspace: Workspace,
    environment: str,
    workload: str | None,
    local: bool,
    body: Path | None,
    content_type: str | None,
    accept: str,
    number: int | None,
    endpoint: str | None,
) -> None:
    """Send a file to a running endpoint and print its answer."""
    if (body is None) == (number is None):
        raise click.UsageError("give either --body FILE or --digit N")
    digit = None
    if number is not None:
        digit = dataset.read_digit(workspace.root / dataset.FOLDER, number)
    session = workspace.open(environment, local, workload)
    name = endpoint or invoke.find_endpoint(
        session.target, f"{session.names.pipeline}-", session.names.serving_endpoint
    )
    if digit is not None:
        click.echo(json.dumps(asdict(invoke.ask(session.target, name, digit)), indent=2))
    elif body is not None:
        kind = content_type or _TYPES.get(body.suffix, "application/octet-stream")
        answer = invoke.send(session.target, name, body.read_bytes(), kind, accept)
        click.echo(answer, nl=not answer.endswith(b"\n"))
