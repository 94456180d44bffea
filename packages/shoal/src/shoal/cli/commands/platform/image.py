"""`shoal image build ENV`: build the environment's recipe where the stacks find it."""

from __future__ import annotations

import click

from shoal.cli.answers import answers, tell
from shoal.cli.options import session_command
from shoal.cli.view import open_view
from shoal.errors import UsageError
from shoal.launch import recipes
from shoal.verbs.build_images import build_missing
from shoal.verbs.workspace import Session


@click.group()
def image() -> None:
    """The container images that an environment builds for itself.

    Their settings are training.build_image and endpoint.build_image.
    """


@image.command()
@session_command
@answers(images=list[str])
def build(session: Session) -> None:
    """Deploy ENV's image stack, build its recipes with CodeBuild, and wait.

    `shoal deploy` does so too. Nothing is built twice. The emulator has no Docker: it runs the
    program of an image that serves, and refuses others.
    """
    if not session.environment.built_images:
        raise UsageError(
            f"environment {session.title} builds no image; name a recipe in training.build_image"
            f" ({', '.join(recipes.names(serves=False))}) or endpoint.build_image"
            f" ({', '.join(recipes.names(serves=True))})"
        )
    with open_view() as view:
        uris = build_missing(session, session.prepared(view), view)
    for uri in uris:
        tell(f"built: {uri}", images=[uri])
