"""`shoal image build ENV`: has the environment's recipe built in its account, where the stacks then
find it.
"""

from __future__ import annotations

import click

from pipelines.launch import recipes
from shoal.cli.options import environment_argument
from shoal.cli.view import open_view
from shoal.verbs.errors import UsageError
from shoal.verbs.flow import phase
from shoal.verbs.image import Image, built_image
from shoal.verbs.workspace import Session, Workspace


@click.group()
def image() -> None:
    """The container image that an environment builds for itself (training.build_image)."""


@image.command()
@environment_argument
@click.option(
    "--local",
    is_flag=True,
    help="Use the emulator on this machine, which refuses to build: it has no Docker.",
)
@click.pass_obj
def build(workspace: Workspace, environment: str, local: bool) -> None:
    """Deploy ENV's image stack, build its recipe with CodeBuild, and wait.

    Nothing is built twice.
    """
    session = workspace.open(environment, local)
    wanted = built_image(session.environment, session.target, workspace.root)
    if wanted is None:
        raise UsageError(
            f"environment {environment} builds no image; name a recipe in training.build_image:"
            f" {', '.join(recipes.names())}"
        )
    uri = wanted.uri()
    if uri is None:
        uri = _build(session, wanted)
    click.echo(f"built: {uri}")


def _build(session: Session, wanted: Image) -> str:
    environment = session.environment.name
    with open_view() as view:
        cdk = session.prepared(view)
        with phase(
            f"deploy the image stack of {environment} to {session.target.description}", view
        ):
            cdk.deploy(session.target, environment, stack="image")
        with phase(f"build images/{wanted.recipe}", view):
            return wanted.build(view, session.poll_s)
