"""`shoal drift ENV`: what is live beside what git says, item by item, with a diff of each that
differs; exit code 1 if any does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import click

from shoal.cli.options import environment_argument, local_option
from shoal.cli.promote import release_targets
from shoal.cli.view import open_view
from shoal.verbs import dataset, drift, drift_serving, invoke, release_status
from shoal.verbs.assembly import stacks_of
from shoal.verbs.deployed_stack import DeployedStack
from shoal.verbs.drift import Item
from shoal.verbs.errors import DisagreementError
from shoal.verbs.events import Event
from shoal.verbs.flow import phase
from shoal.verbs.workspace import Session, Workspace

_MARKS = {True: "ok      ", False: "DIFFERS ", None: "unknown "}


@click.command("drift")
@environment_argument
@local_option
@click.option("--json", "as_json", is_flag=True, help="Print the items as JSON, and nothing else.")
@click.option(
    "--no-invoke",
    is_flag=True,
    help="Do not ask the endpoint for the hash of the weights that it has loaded.",
)
@click.pass_obj
def show_drift(
    workspace: Workspace, environment: str, local: bool, as_json: bool, no_invoke: bool
) -> None:
    """Compare what is live in ENV with what the checkout says: pipeline, roles, schedules, rules,
    release and endpoint. Changes nothing.
    """
    session = workspace.open(environment, local)
    drift.require_deployed(
        session.names, session.target, [session.names.stack("pipeline")]
    )  # before a synth that would be for nothing
    with (
        nullcontext(_silent) if as_json else open_view() as report,
        phase(f"synth {environment}", report),
    ):
        session.cdk(report).synth(environment)
    items = list(items_of(session, local, asks=not no_invoke))
    if as_json:
        click.echo(json.dumps([asdict(each) for each in items], indent=2))
    else:
        _print(items)
    differing = [each for each in items if not each.agrees]
    if differing:
        what = ", ".join(f"{each.kind} {each.name}" for each in differing)
        raise DisagreementError(f"{environment} is not as git says: {what}")


def items_of(session: Session, local: bool, *, asks: bool = True) -> Iterator[Item]:
    """Everything that is compared, for the assembly that was synthesised last.

    Raises NotFoundError where ENV is not deployed.
    """
    environment = session.environment
    stacks = [
        DeployedStack(session.target, each)
        for each in stacks_of(session.assembly, environment.name)
    ]
    yield from drift.compare(session.names, stacks)
    places = release_targets(session.workspace, environment, local)
    for answer in release_status.compare(
        environment.release, places, session.names.serving_endpoint
    ):
        yield Item("release", answer.question, answer.agrees, answer.says)
    for stack in stacks:
        yield from drift_serving.compare(
            stack, environment.release, _asker(session) if asks else None
        )


def _asker(session: Session) -> drift_serving.Ask:
    def ask(endpoint: str) -> Mapping[str, Any]:
        digit = dataset.read_digit(session.workspace.root / dataset.FOLDER, 0)
        return invoke.ask(session.target, endpoint, digit).model

    return ask


def _silent(_event: Event) -> None:
    """With `--json` the items are all that is printed."""


def _print(items: list[Item]) -> None:
    for each in items:
        click.echo(
            f"{_MARKS[each.agrees]}{each.kind} {each.name}{f': {each.says}' if each.says else ''}"
        )
        for line in each.diff:
            click.echo(f"    {line}")
