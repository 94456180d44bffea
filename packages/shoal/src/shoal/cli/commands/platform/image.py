"""`shoal image build ENV`: build the environment's recipe where the stacks find it."""

from __future__ import annotations

import click

from shoal.aws.events import Note
from shoal.cli.options import environment_argument
from shoal.cli.view import open_view
from shoal.errors import UsageError
from shoal.launch import recipes
from shoal.verbs.doctor.image import Image, built_images
from shoal.verbs.flow import phase
from shoal.verbs.workspace import Session, Workspace


@click.group()
def image() -> None:
    """The container images that an environment builds for itself.

    Their settings are training.build_image and endpoint.build_image.
    """


@image.command()
@environment_argument
@click.option(
    "--local",
    is_flag=True,
    help="Use the emulator on this machine, which has no Docker: it runs the program of an image"
    " that serves, and refuses others.",
)
@click.pass_obj
def build(workspace: Workspace, environment: str, workload: str | None, local: bool) -> None:
    """Deploy ENV's image stack, build its recipes with CodeBuild, and wait.

    Nothing is built twice.
    """
    session = workspace.open(environment, local, workload)
    images = built_images(session.environment, session.target, workspace.root)
    if not images:
        raise UsageError(
            f"environment {session.title} builds no image; name a recipe in training.build_image"
            f" ({', '.join(recipes.names(serves=False))}) or endpoint.build_image"
            f" ({', '.join(recipes.names(serves=True))})"
        )
    for each in images:
        click.echo(f"built: {each.uri() or _build(session, each)}")


def _build(session: Session, container_image: Image) -> str:
    environment = session.environment.name
    with open_view() as view:
        cdk = session.prepared(view)
        with phase(
            f"deploy the image stack of {session.title} to {session.target.description}", view
        ):
            cdk.deploy(session.target, environment, stack=session.names.stack_id("image"))
        if session.target.is_local and container_image.use == "endpoint":
            view(Note("the emulator builds no image: it runs the recipe's program in its runtime"))
            return container_image.stand_in()
        with phase(f"build images/{container_image.recipe}", view):
            return container_image.build(view, session.poll_s)
