"""`shoal invoke`: send one test digit to an endpoint."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from shoal.cli.options import environment_argument, local_option
from shoal.verbs import dataset, invoke
from shoal.verbs.workspace import Workspace


@click.command("invoke")
@environment_argument
@local_option
@click.option(
    "--digit",
    "number",
    type=int,
    required=True,
    metavar="N",
    help="Which image of the MNIST test set to send, from 0.",
)
@click.option(
    "--endpoint",
    metavar="NAME",
    help="Which endpoint to ask; by default the newest of an execution, else the serving one.",
)
@click.pass_obj
def invoke_endpoint(
    workspace: Workspace, environment: str, local: bool, number: int, endpoint: str | None
) -> None:
    """Send test digit N to a running endpoint and print its answer as JSON."""
    digit = dataset.read_digit(workspace.root / dataset.FOLDER, number)
    session = workspace.open(environment, local)
    name = endpoint or invoke.find_endpoint(
        session.target, f"{session.names.pipeline}-", session.names.serving_endpoint
    )
    click.echo(json.dumps(asdict(invoke.ask(session.target, name, digit)), indent=2))
