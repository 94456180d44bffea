"""`shoal image build ENV`: has the environment's recipe built in its account, where the stacks then find it."""

from __future__ import annotations

from pathlib import Path

import click

from cli.view import open_view
from cli.workspace import Session, Workspace
from config.names import Names
from config.settings import Environment
from lifecycle.errors import UsageError
from lifecycle.flow import phase
from lifecycle.image import Image
from lifecycle.target import Target
from pipelines.launch import recipes


@click.group()
def image() -> None:
    """The container image that an environment builds for itself (training.build_image)."""


@image.command()
@click.argument("environment", metavar="ENV")
@click.option("--local", is_flag=True, help="Use the emulator on this machine, which refuses to build: it has no Docker.")
@click.pass_obj
def build(workspace: Workspace, environment: str, local: bool) -> None:
    """Deploy ENV's image stack, build its recipe with CodeBuild, and wait. Nothing is built twice."""
    session = workspace.open(environment, local)
    wanted = image_of(session)
    if wanted is None:
        raise UsageError(f"environment {environment} builds no image; name a recipe in training.build_image: {', '.join(recipes.names())}")
    uri = wanted.uri()
    if uri is None:
        uri = _build(session, wanted)
    click.echo(f"built: {uri}")


def image_of(session: Session) -> Image | None:
    """The image that the environment wants built, if it does."""
    return built_image(session.environment, session.target, session.workspace.root)


def built_image(environment: Environment, target: Target, root: Path) -> Image | None:
    """The same of an environment of the repository at `root`."""
    recipe, names = environment.training.build_image, Names(environment)
    if recipe is None:
        return None
    tag = recipes.content_tag(recipe, environment.region, root)
    return Image(target, recipe, names.image_parameter(recipe, tag), names.build_project)


def refuse_built_image(environment: Environment) -> None:
    """Raises UsageError where an environment that runs on this machine only wants an image built: the emulator has no Docker."""
    if recipe := environment.training.build_image:
        raise UsageError(f"training.build_image {recipe}: the emulator builds no images, so this environment runs on AWS only")


def _build(session: Session, wanted: Image) -> str:
    environment = session.environment.name
    with open_view() as view:
        cdk = session.prepared(view)
        with phase(f"deploy the image stack of {environment} to {session.target.description}", view):
            cdk.deploy(session.target, environment, stack="image")
        with phase(f"build images/{wanted.recipe}", view):
            return wanted.build(view, session.poll_s)
