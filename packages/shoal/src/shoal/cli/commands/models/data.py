"""`shoal data upload`: put the dataset where an environment's pipeline reads it."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.answers import answers, tell
from shoal.cli.options import session_command
from shoal.cli.view import open_view
from shoal.verbs import dataset
from shoal.verbs.workspace import Session


@click.group()
def data() -> None:
    """The dataset of an environment."""


@data.command()
@session_command
@click.option(
    "--from",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Upload what is in FOLDER/CHANNEL/ of each channel instead.",
)
@answers(uploaded=int)
def upload(session: Session, folder: Path | None) -> None:
    """Upload the dataset of ENV's workload, as its script `prepare` writes it; files that are there
    already stay.
    """
    with open_view() as view:
        count = dataset.upload_workload(
            session.target, session.environment, session.workspace.root, view, folder
        )
    tell(uploaded=count)
