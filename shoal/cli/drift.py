"""`shoal drift ENV`: compare what is live with what git says, with a diff of each difference.

Exit code 1 if anything differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import click

from config.smoke_test import Accept
from config.workload import load_workload, workload_folder
from shoal.cli.options import environment_argument, local_option
from shoal.cli.view import open_view
from shoal.verbs import drift, drift_serving, invoke, release_status
from shoal.verbs.assembly import stacks_of
from shoal.verbs.deployed_stack import DeployedStack
from shoal.verbs.drift import Item
from shoal.verbs.errors import DisagreementError, UsageError
from shoal.verbs.events import Event
from shoal.verbs.flow import phase
from shoal.verbs.promotion_path import release_targets
from shoal.verbs.workspace import Session, Workspace

_MARKS = {True: "ok      ", False: "DIFFERS ", None: "unknown "}


@click.command("drift")
@environment_argument
@local_option
@click.option("--json", "as_json", is_flag=True, help="Print the items as JSON, and nothing else.")
@click.option(
    "--no-invoke",
    is_flag=True,
    help="Do not ask the endpoint for the digest of the model that it has loaded.",
)
@click.pass_obj
def show_drift(
    workspace: Workspace,
    environment: str,
    workload: str | None,
    local: bool,
    as_json: bool,
    no_invoke: bool,
) -> None:
    """Compare what is live in ENV with what the checkout says: pipeline, roles, schedules, rules,
    release and endpoint. Changes nothing.
    """
    session = workspace.open_whole(environment, local, workload)
    drift.require_deployed(
        session.names, session.target, [each.names.stack("pipeline") for each in session.each]
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
        raise DisagreementError(f"{session.title} is not as git says: {what}")


def items_of(session: Session, local: bool, *, asks: bool = True) -> Iterator[Item]:
    """Yield everything that is compared, for the assembly that was synthesised last.

    Raises NotFoundError if ENV is not deployed.
    """
    stacks = [
        DeployedStack(session.target, each)
        for each in stacks_of(session.assembly, session.environment.name)
    ]
    if not session.environment.workloads:
        yield from _items_of_workload(session, stacks, local, asks=asks)
        return
    if session.views:
        own = {name for each in session.each for name in each.own_stacks}
        shared = [stack for stack in stacks if stack.name not in own]
        yield from drift.compare(session.names, shared)
    for each in session.each:
        own_stacks = [stack for stack in stacks if stack.name in each.own_stacks]
        yield from _items_of_workload(each, own_stacks, local, asks=asks)


def _items_of_workload(
    session: Session, stacks: Sequence[DeployedStack], local: bool, *, asks: bool
) -> Iterator[Item]:
    environment = session.environment
    yield from drift.compare(session.names, stacks)
    targets = release_targets(session.workspace, environment, local)
    for answer in release_status.compare(
        environment.release, targets, session.names.serving_endpoint
    ):
        name = f"{environment.workload} " if environment.workloads else ""
        yield Item("release", f"{name}{answer.question}", answer.agrees, answer.says)
    for stack in stacks:
        yield from drift_serving.compare(
            stack, environment.release, _asker(session) if asks else None
        )


def _asker(session: Session) -> drift_serving.Ask:
    root, name = session.workspace.root, session.environment.workload

    def ask(endpoint: str) -> Mapping[str, Any]:
        test = load_workload(name, root).smoke_test
        if test is None:
            raise UsageError(f"workload {name} has no smoke test, so there is nothing to ask")
        request = next(each for each in test.requests if each.accept is Accept.JSON)
        return invoke.model_of(session.target, endpoint, request, workload_folder(name, root))

    return ask


def _silent(_event: Event) -> None:
    """Ignore the event: with `--json` only the items are printed."""


def _print(items: list[Item]) -> None:
    for each in items:
        click.echo(
            f"{_MARKS[each.agrees]}{each.kind} {each.name}{f': {each.says}' if each.says else ''}"
        )
        for line in each.diff:
            click.echo(f"    {line}")
