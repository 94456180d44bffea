"""`shoal destroy`: take one environment down, or only what serves its release."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import click

from shoal.aws import inventory
from shoal.cli.answers import answers, tell
from shoal.cli.options import Selection, excluding, flag, selection_command
from shoal.cli.view import open_view
from shoal.errors import LeftBehindError, UsageError
from shoal.settings.loading.loader import workloads_of
from shoal.verbs.destroy.leftovers import sweep
from shoal.verbs.flow import phase
from shoal.verbs.image import serve_from
from shoal.verbs.workspace import Session


@click.command()
@excluding("--serving", "--leftovers")
@selection_command
@flag(
    "--serving", help="Delete only what serves a release; where `protect: true`, if none is pinned."
)
@flag(
    "--leftovers",
    help="Delete only what executions left for longer than `endpoint.ttl_minutes`, now.",
)
@flag("--dry-run", help="With --leftovers: say what would be deleted.")
@answers(destroyed=list[str], kept=list[str], leftovers=dict[str, dict[str, Any]])
def destroy(selection: Selection, serving: bool, leftovers: bool, dry_run: bool) -> None:
    """Stop what runs in ENV, and delete all that it has.

    With WORKLOAD only what is its own, also of one that left the file. Refused where
    `protect: true`, and for a WORKLOAD that left the file while its stacks have termination
    protection, and on AWS while another environment serves an image that ENV built. Who serves a
    model of ENV has its own copy.
    """
    if dry_run and not leftovers:
        raise click.UsageError("--dry-run goes with --leftovers")
    if leftovers:
        _sweep(selection.open_whole(), dry_run=dry_run)
        return
    if serving:
        _destroy_serving(selection.open())
        return
    session, environment = _open(selection), selection.environment
    others = [] if session.target.is_local else serve_from(session.names, session.workspace.root)
    if others:
        raise UsageError(
            f"the release of {', '.join(others)} has an image that {session.title} built, and"
            " instances that start later pull it: pin another release there first"
        )
    with open_view() as view:
        cdk, teardown = session.cdk(view), session.teardown(view)
        teardown.require_allowed()
        teardown.pause_schedules()  # before a synth that may take a minute, or fail
        if not session.names.is_one_of_several:
            with phase(f"synth {environment}", view):
                cdk.synth(environment)
        with phase(f"destroy {session.title} in {session.target.description}", view):
            destroyed = teardown.destroy(partial(cdk.destroy, session.target, environment))
    for line in destroyed.kept:
        tell(f"kept on purpose: {line}", kept=[line])
    destroyed.raise_if_left()
    nothing = "nothing else" if destroyed.retained else "nothing"
    prefixes = [*dict.fromkeys(each.names.prefix for each in (session, *session.each))]
    tell(f"destroyed: {nothing} named {', '.join(prefixes)} is left", destroyed=prefixes)
    if session.names.is_one_of_several:
        kept = f"everything else of {environment}, which its other workloads use"
        tell(f"left: {kept}", kept=[kept])


def _open(selection: Selection) -> Session:
    """Return the environment, or one workload of it: in its file, or deployed and in it no more."""
    workload, root = selection.workload, selection.workspace.root
    if workload is None or workload in workloads_of(selection.environment, root):
        return selection.open_whole()
    whole = replace(selection, workload=None).open_whole()
    if workload in inventory.deployed_workloads(whole.target, whole.names):
        names = inventory.names_of(whole.names, workload)
        return replace(whole, environment=names.environment, views=())
    return selection.open()  # says which there are


def _destroy_serving(session: Session) -> None:
    stack, where = session.names.stack("serving"), session.target.description
    with open_view() as view:
        removal = session.serving_removal(view)
        removal.require_allowed()
        with phase(f"destroy what serves {session.title} in {where}", view):
            kept = removal.remove()
            removal.require_no_endpoint()
    if kept is None:
        tell(f"there is no stack {stack} in {where}: nothing was destroyed")
        return
    tell(
        f"destroyed: stack {stack} with the endpoint {session.names.serving_endpoint}, its scaling,"
        " alarms, configuration and model",
        destroyed=[stack],
    )
    for line in (
        *kept,
        f"everything else of {session.title}: its other stacks, its data, its registry",
    ):
        tell(f"left: {line}", kept=[line])
    if session.environment.serves:
        tell(f"its file still pins a release: `shoal deploy {session.arguments}` serves it again")


def _sweep(session: Session, *, dry_run: bool) -> None:
    """Delete endpoints, configurations and models that executions left for longer than
    `endpoint.ttl_minutes`; raise LeftBehindError where not all could be.
    """
    problems: list[str] = []
    for each in session.each:
        name = each.names.function("sweep")
        swept = sweep(each.target, name, dry_run=dry_run)
        if each.environment.workloads:
            tell(f"{each.title}:")
        lines = _swept_lines(swept, each.environment.ttl_minutes)
        tell("\n".join(lines), leftovers={each.title: swept})
        if swept["pending"]:
            pending = f"what executions {', '.join(swept['pending'])} left"
            problems.append(f"not deleted yet: {pending}; sweep again in a few minutes")
        if not swept["complete"]:
            unread = f"{' and '.join(swept['unread']) or 'tags'} could not be read"
            problems.append(f"not everything was looked at: {unread}, the log of {name} says why")
    if problems:
        raise LeftBehindError("; ".join(problems))


def _swept_lines(swept: Mapping[str, Any], ttl_minutes: int) -> Iterator[str]:
    old = f"{swept['endpoints_past_ttl']} older than {ttl_minutes} minutes"
    yield f"endpoints: {swept['endpoints']}, of which {old}"
    if swept["kept"]:
        yield f"kept, running or younger: executions {', '.join(swept['kept'])}"
    past = ", ".join(swept["past_ttl"])
    if swept["dry_run"]:
        yield f"would be removed: {f'what executions {past} left' if past else 'nothing'}"
    else:
        yield f"deleted: {', '.join(swept['deleted']) or 'nothing'}"
