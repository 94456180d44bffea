"""`shoal image build ENV`: build the environment's recipe where the stacks find it."""

from __future__ import annotations

import click

from shoal.cli.options import environment_argument
from shoal.cli.view import open_view
from shoal.errors import UsageError
from shoal.launch import recipes
from shoal.verbs.doctor.image import Image, built_image
from shoal.verbs.flow import phase
from shoal.verbs.workspace import Session, Workspace


@click.group()
def image() -> None:
    """The container image that an environment builds for itself.

    Its settings are in training.build_image.
    """


@image.command()
@environment_argument
@click.option(
    "--local",
    is_flag=True,
    help="Use the emulator on this machine, which refuses to build: it has no Docker.",
)
@click.pass_obj
def build(workspace: Workspace, environment: str, workload: str | None, local: bool) -> None:
    """Deploy ENV's image stack, build its recipe with CodeBuild, and wait.

    Nothing is built twice.
    """
    session = workspace.open(environment, local, workload)
    container_image = built_image(session.environment, session.target, workspace.root)
    if container_image is None:
        raise UsageError(
            f"environment {session.title} builds no image; name a recipe in training.build_image:"
            f" {', '.join(recipes.names())}"
        )
    uri = container_image.uri()
    if uri is None:
        uri = _build(session, container_image)
    click.echo(f"built: {uri}")


def _build(session: Session, container_image: Image) -> str:
    environment = session.environment.name
    with open_view() as view:
        cdk = session.prepared(view)
        with phase(
            f"deploy the image stack of {session.title} to {session.target.description}", view
        ):
            cdk.deploy(session.target, environment, stack=session.names.stack_id("image"))
        with phase(f"build images/{container_image.recipe}", view):
            return container_image.build(view, session.poll_s)
