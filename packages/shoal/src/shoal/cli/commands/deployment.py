"""`shoal deploy | diff`: an environment's stacks, with the CDK CLI, and their images."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from shoal.aws import inventory, serving
from shoal.aws.stacks import status_of_stack
from shoal.cli.answers import answers, tell
from shoal.cli.options import excluding, flag, whole_command
from shoal.cli.view import View, open_view
from shoal.errors import AWS_ERRORS, CommandError, DisagreementError, UsageError, refusal
from shoal.launch import recipes
from shoal.settings.loading.loader import environment_file, places
from shoal.settings.sections.serving import timeout_s
from shoal.verbs.doctor.network_check import require_fit
from shoal.verbs.doctor.organisation_check import refuse_change
from shoal.verbs.flow import phase
from shoal.verbs.image import build_missing
from shoal.verbs.workspace import Session


@click.command()
@excluding("--check", "--images")
@flag("--check", help="Only refuse what is refused before; change nothing.")
@flag("--images", help="Only deploy the image stack, and build what it lacks.")
@whole_command
@answers(pipelines=list[str], serving=list[str], notices=list[str], images=list[str])
def deploy(session: Session, check: bool, images: bool) -> None:
    """Deploy the stacks of ENV, with all that they need.

    That is a bootstrap, and images that it builds. The cdk CLI does it; with WORKLOAD, for its own
    stacks and what they need. The emulator has no Docker: it runs the program of an image that
    serves, and refuses others.
    """
    if images:
        if not any(each.environment.built_images for each in session.each):
            raise UsageError(
                f"environment {session.title} builds no image; name a recipe in"
                f" training.build_image ({', '.join(recipes.names(serves=False))}) or"
                f" endpoint.build_image ({', '.join(recipes.names(serves=True))})"
            )
        with open_view() as view:
            uris = build_missing(session, session.prepared(view), view)
        for uri in uris:
            tell(f"built: {uri}", images=[uri])
        return
    in_file = places(session.environment.name, session.workspace.root)
    if notice := require_fit(session.target, session.environment, in_file):
        _warn(notice)
    refuse_change(session.target, session.environment)
    if check:
        tell(f"nothing refuses a deployment of {session.title}")
        return
    with deploying(session) as view:
        cdk = session.prepared(view)
        session.stacks(view).settle()
        build_missing(session, cdk, view, meanwhile=True)
        with phase(f"deploy {session.title} to {session.target.description}", view):
            patience_s = sum(map(_rollout_s, session.each))
            cdk.deploy(session.target, session.environment.name, session.stack_pattern, patience_s)
    for each in session.each:
        tell(f"deployed: pipeline {each.names.pipeline}", pipelines=[each.names.pipeline])
        report_serving(each)
    _report_unlisted(session)


def _report_unlisted(session: Session) -> None:
    """Print the workloads that left the file: the CLI deletes no stack that left the checkout."""
    name, workloads = session.environment.name, session.environment.workloads
    deployed = inventory.deployed_workloads(session.target, session.names) if workloads else []
    for workload in sorted({*deployed} - {*workloads}):
        _warn(
            f"{environment_file(name)} has no workload {workload}, but its stacks are there and"
            f" cost money until `shoal destroy {name} {workload}{session.flag}` deletes them"
        )


def _warn(notice: str) -> None:
    tell(notice, err=True, notices=[notice])


@contextmanager
def deploying(session: Session) -> Iterator[View]:
    """Yield the view of a deployment. Where an interruption or a deadline ends the CLI, say below
    the view, which overwrites what is printed while it is drawn, what CloudFormation goes on doing.
    """
    try:
        with open_view() as view:
            yield view
    except (KeyboardInterrupt, CommandError) as error:
        if not isinstance(error, CommandError) or error.exit_code is None:  # the CLI's deadline
            _report_unfinished_work(session)
        raise


def _report_unfinished_work(session: Session) -> None:
    try:
        busy = session.stacks(lambda _: None).busy()
    except AWS_ERRORS as error:
        click.echo(f"whether CloudFormation goes on is not known: {refusal(error)}", err=True)
        return
    for stack, status in busy.items():
        # CancelUpdateStack takes stacks in this state only (CloudFormation API reference);
        # shoal-local has none.
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
    """Return the extra time for a deployment that moves traffic to a release, and back again."""
    settings = session.environment.serving
    return 2.0 * timeout_s(settings) if settings and session.environment.serves else 0.0


def report_serving(session: Session) -> None:
    """Print the endpoint, and the stack of a release that is no longer pinned: the CLI keeps it."""
    if endpoint := serving.live_endpoint(session.target, session.names.serving_endpoint):
        tell(f"serving: {endpoint}", serving=[str(endpoint)])
    stack = session.names.stack("serving")
    if not session.environment.serves and (status := status_of_stack(session.target, stack)):
        reason = "has no section `serving`" if session.environment.release else "pins no release"
        _warn(
            f"{session.title} {reason}, but the stack {stack} is there ({status}) and costs money"
            f" until `shoal destroy {session.arguments} --serving` deletes it"
        )


@click.command()
@whole_command
@answers(differs=bool, differences=str)
def diff(session: Session) -> None:
    """Compare ENV as the checkout has it with what is deployed.

    Exit code 1 if they differ.
    """
    environment = session.environment.name
    with open_view() as view:
        cdk = session.cdk(view)
        with phase(f"synth {environment}", view):
            cdk.synth(environment)
        with phase(f"diff {session.title} with {session.target.description}", view):
            differences = cdk.diff(session.target, environment, session.stack_pattern)
    if differences:
        tell(differences, differs=True, differences=differences)
        raise DisagreementError(
            f"{session.title} differs from what is deployed; `shoal deploy {session.arguments}`"
            " changes that"
        )
    tell("no differences", differs=False, differences="")
