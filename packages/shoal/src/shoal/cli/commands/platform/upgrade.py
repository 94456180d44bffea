"""`shoal upgrade`: go over to another version of Shoal."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.answers import answers, tell
from shoal.cli.exit_codes import FAILED
from shoal.cli.view import open_view
from shoal.verbs.upgrade import begin
from shoal.verbs.workspace import Workspace


@click.command()
@click.option("--to", metavar="VERSION", help="Left out, the newest that an index has.")
@click.option(
    "--wheels",
    metavar="PLACE",
    help="A folder, which is copied from, or a page with Shoal's wheels.",
)
@click.pass_obj
@answers(is_done=bool)
def upgrade(workspace: Workspace, to: str | None, wheels: str | None) -> None:
    """Go over to another version of Shoal, in one commit on a branch.

    Merges what changed in the template, renames keys, locks, and says what a deployment would
    change. The checkout and .venv stay as they are. With conflicts the branch is checked out.
    """
    if wheels and Path(wheels).is_dir():
        wheels = str(Path(wheels).absolute())
    with open_view() as view:
        place = begin.Workplace(workspace.root, workspace.environ, view)
        is_done = begin.upgrade(place, to, wheels)
    tell(is_done=is_done)
    if not is_done:
        raise click.exceptions.Exit(FAILED)
