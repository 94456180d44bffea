"""The verbs that deploy one environment and take it down: a name and a checkout in, stacks at a
target out, with the cdk CLI.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from config.loader import environment_names, load_environment, places
from config.serving import timeout_s
from config.settings import Environment
from config.settings import Target as TargetKind
from shoal.cli.options import environment_argument, local_option
from shoal.cli.promote import holder_of
from shoal.cli.view import open_view
from shoal.verbs import serving
from shoal.verbs.dependents import reasons_to_keep
from shoal.verbs.deployed_stack import describe_stack, status_of_stack
from shoal.verbs.errors import AWS_ERRORS, CommandError, ProtectedError, refusal
from shoal.verbs.flow import phase
from shoal.verbs.image import built_image
from shoal.verbs.network_check import require_fit
from shoal.verbs.shared_release import require_shared
from shoal.verbs.target import Target
from shoal.verbs.teardown import refuse_if_protected
from shoal.verbs.workspace import Session, Workspace


@click.command()
@click.argument("environment", metavar="[ENV]", required=False)
@click.pass_obj
def synth(workspace: Workspace, environment: str | None) -> None:
    """Write the CloudFormation templates of ENV, or of every environment, to cdk.out.

    Needs no network and no credentials.
    """
    if environment:
        load_environment(environment, workspace.root)
    assembly, folder = workspace.root / "cdk.out", workspace.root / ".shoal" / "cdk"
    with open_view() as view, phase("synth", view):
        workspace.cdk(assembly, folder, folder / "tmp", view).synth(environment)
    click.echo(f"written: {assembly}")


@click.command()
@environment_argument
@click.option(
    "--data",
    "only_data",
    is_flag=True,
    help="Deploy only the stack that has ENV's data and registry, and who may read there.",
)
@local_option
@click.pass_obj
def deploy(workspace: Workspace, environment: str, only_data: bool, local: bool) -> None:
    """Bootstrap the account if needed, and deploy the stacks of ENV with the cdk CLI."""
    session = workspace.open(environment, local)
    if only_data:
        _deploy_data(session)
        return
    if notice := _require_shared(session, local):
        click.echo(notice, err=True)
    if wanted := built_image(session.environment, session.target, session.workspace.root):
        wanted.require(session.arguments)
    if notice := require_fit(
        session.target, session.environment, places(environment, workspace.root)
    ):
        click.echo(notice, err=True)
    with open_view() as view:
        cdk = session.prepared(view)
        with (
            phase(f"deploy {environment} to {session.target.description}", view),
            told_what_goes_on(session),
        ):
            session.stacks(view).settle()
            cdk.deploy(session.target, environment, patience_s=_rollout_s(session))
    click.echo(f"deployed: pipeline {session.names.pipeline}")
    tell_what_serves(session)


def _deploy_data(session: Session) -> None:
    """Whom its policies name is what the files of other environments say, so it changes when
    nothing else of ENV does.
    """
    name, stack = session.environment.name, session.names.stack("data")
    with open_view() as view:
        cdk = session.prepared(view)
        with (
            phase(f"deploy {name}/data to {session.target.description}", view),
            told_what_goes_on(session),
        ):
            session.stacks(view).settle()
            cdk.deploy(session.target, name, "data")
    found = describe_stack(session.target, stack) or {}
    shared = [
        f"; {each['OutputValue']}"
        for each in found.get("Outputs", ())
        if each["OutputKey"] == "Consumers"
    ]
    click.echo(f"deployed: stack {stack}{''.join(shared)}")


def _require_shared(session: Session, local: bool) -> str:
    """Raises NotSharedError where what ENV would serve may not be read by its account.

    Returns a notice where that cannot be asked.
    """
    environment, release = session.environment, session.environment.release
    if release is None or not environment.serves:
        return ""
    holder = holder_of(session.workspace, environment)
    flag = " --local" if local and holder.target is TargetKind.AWS else ""
    return require_shared(
        session.target, environment, release, f"shoal deploy {holder.name}{flag} --data"
    )


@contextmanager
def told_what_goes_on(session: Session) -> Iterator[None]:
    """Interrupted, or at its deadline, only the CLI has ended: what CloudFormation was told to do
    it does to its end.
    """
    try:
        yield
    except (KeyboardInterrupt, CommandError) as error:
        if not isinstance(error, CommandError) or error.exit_code is None:  # the CLI's deadline
            _tell_what_goes_on(session)
        raise


def _tell_what_goes_on(session: Session) -> None:
    try:
        busy = session.stacks(lambda _: None).busy()
    except AWS_ERRORS as error:
        click.echo(f"whether CloudFormation goes on is not known: {refusal(error)}", err=True)
        return
    for stack, status in busy.items():
        # CancelUpdateStack takes stacks in this state only (CloudFormation API reference); the
        # emulator has none.
        undo = f"; `aws cloudformation cancel-update-stack --stack-name {stack}` takes it back"
        can_be_undone = status == "UPDATE_IN_PROGRESS" and not session.target.is_local
        click.echo(
            f"CloudFormation goes on: stack {stack} is {status}{undo if can_be_undone else ''}",
            err=True,
        )
    click.echo(
        f"to go on here: `shoal deploy {session.arguments}`, which waits for such stacks, and"
        " deploys what is not deployed",
        err=True,
    )


def _rollout_s(session: Session) -> float:
    """How much longer a deployment may take that moves traffic to a release, and back again."""
    settings = session.environment.serving
    return 2.0 * timeout_s(settings) if settings and session.environment.serves else 0.0


def tell_what_serves(session: Session) -> None:
    """The endpoint, and that its stack is left of a release that is pinned no more: the CLI deletes
    no stack that has left the checkout.
    """
    if served := serving.live_endpoint(session.target, session.names.serving_endpoint):
        click.echo(f"serving: {served}")
    stack = session.names.stack("serving")
    if not session.environment.serves and (status := status_of_stack(session.target, stack)):
        lacks = "has no section `serving`" if session.environment.release else "pins no release"
        verb = f"`shoal destroy {session.arguments} --serving`"
        goes_on = (
            f"but the stack {stack} is there ({status}) and costs money until {verb} deletes it"
        )
        click.echo(f"{session.environment.name} {lacks}, {goes_on}", err=True)


@click.command()
@environment_argument
@local_option
@click.pass_obj
def diff(workspace: Workspace, environment: str, local: bool) -> None:
    """Compare ENV as the checkout describes it with what is deployed; exit code 1 if they
    differ.
    """
    session = workspace.open(environment, local)
    with open_view() as view:
        cdk = session.cdk(view)
        with phase(f"synth {environment}", view):
            cdk.synth(environment)
        with phase(f"diff {environment} with {session.target.description}", view):
            cdk.diff(session.target, environment)
    click.echo("no differences")


@click.command()
@environment_argument
@local_option
@click.option(
    "--serving",
    "only_serving",
    is_flag=True,
    help="Delete only what serves a release; where `protect: true`, if none is pinned.",
)
@click.option(
    "--even-if-served",
    is_flag=True,
    help="Also where another environment serves a model of ENV, or nobody can tell.",
)
@click.pass_obj
def destroy(
    workspace: Workspace, environment: str, local: bool, only_serving: bool, even_if_served: bool
) -> None:
    """Stop what runs in ENV, remove what executions left, and delete the stacks.

    Refused where `protect: true`, and where another environment serves a model of ENV.
    """
    session = workspace.open(environment, local)
    if only_serving:
        _destroy_serving(session)
        return
    refuse_if_protected(session.environment)
    if not even_if_served:
        _refuse_if_served(session, local)
    with open_view() as view:
        cdk, teardown = session.cdk(view), session.teardown(view)
        with phase(f"synth {environment}", view):
            cdk.synth(environment)
        with phase(f"destroy {environment} in {session.target.description}", view):
            destroyed = teardown.destroy(cdk)
    for line in destroyed.kept:
        click.echo(f"kept on purpose: {line}")
    destroyed.raise_if_left()
    click.echo(f"destroyed: nothing named {session.names.prefix} is left")


def _refuse_if_served(session: Session, local: bool) -> None:
    """Raises ProtectedError with every other environment that serves the session's models, or
    may.
    """
    workspace, own = session.workspace, session.environment.name

    def find(other: Environment) -> Target | None:
        running = workspace.local_server.require() if session.target.is_local else None
        if running and (other.account not in running.accounts or other.region != running.region):
            return None
        return workspace.open(other.name, local).target

    others = [
        load_environment(name, workspace.root)
        for name in environment_names(workspace.root)
        if name != own
    ]
    if reasons := list(reasons_to_keep(session.names, others, find)):
        advice = (
            "deploy other releases there, or destroy them, first; or look for yourself and add"
            " --even-if-served"
        )
        raise ProtectedError(
            f"environment {own} has models of others; nothing was destroyed: {'; '.join(reasons)};"
            f" {advice}"
        )


def _destroy_serving(session: Session) -> None:
    stack, where = session.names.stack("serving"), session.target.description
    with open_view() as view:
        removal = session.serving_removal(view)
        removal.require_allowed()
        with phase(f"destroy what serves {session.environment.name} in {where}", view):
            kept = removal.remove()
            removal.require_no_endpoint()
    if kept is None:
        click.echo(f"there is no stack {stack} in {where}: nothing was destroyed")
        return
    click.echo(
        f"destroyed: stack {stack} with the endpoint {session.names.serving_endpoint}, its scaling,"
        " alarms, configuration and model"
    )
    for line in (
        *kept,
        f"everything else of {session.environment.name}: its other stacks, its data, its registry",
    ):
        click.echo(f"left: {line}")
    if session.environment.serves:
        click.echo(
            f"its file still pins a release: `shoal deploy {session.arguments}` serves it again"
        )
