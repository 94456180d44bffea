"""`shoal data upload`: put the dataset where an environment's pipeline reads it."""

from __future__ import annotations

import click

from shoal.cli.options import environment_argument, local_option
from shoal.cli.view import open_view
from shoal.verbs import dataset
from shoal.verbs.workspace import Workspace


@click.group()
def data() -> None:
    """The dataset of an environment."""


@data.command()
@environment_argument
@local_option
@click.pass_obj
def upload(workspace: Workspace, environment: str, local: bool) -> None:
    """Check the four MNIST files against their published md5 sums and upload those that are not
    there yet.
    """
    session = workspace.open(environment, local)
    dataset.require_known(session.environment.data.dataset, session.names.dataset_uri)
    with open_view() as view:
        dataset.upload(
            session.target, workspace.root / dataset.FOLDER, session.names.dataset_uri, view
        )
