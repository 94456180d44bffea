"""`shoal new` and `shoal data upload`: a workload that runs, to put one's own model into, and its
dataset, where an environment's pipeline reads it.
"""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.answers import answers, tell
from shoal.cli.options import excluding, session_command
from shoal.cli.view import open_view
from shoal.verbs import dataset
from shoal.verbs.new_workload import (
    DEFAULT_FRAMEWORK,
    FRAMEWORKS,
    TASKS,
    TRAINERS,
    write_workload,
)
from shoal.verbs.workspace import Session, Workspace


@click.command()
@excluding("--trainer", "--task --framework")
@click.argument("name")
@click.option(
    "--task",
    type=click.Choice(TASKS),
    help="What its example data is made for: to predict a number, or one of several classes."
    f" {TASKS[0].capitalize()}, where it is left out.",
)
@click.option(
    "--trainer",
    type=click.Choice(TRAINERS),
    help="A language model, trained by Hugging Face's Trainer or TRL, instead of a task.",
)
@click.option(
    "--framework",
    type=click.Choice(FRAMEWORKS),
    help=f"What trains a task's model; left out, {DEFAULT_FRAMEWORK}.",
)
@click.pass_obj
@answers(folder=str, environment_file=str, next=list[str])
def new(
    workspace: Workspace, name: str, task: str | None, trainer: str | None, framework: str | None
) -> None:
    """Write a workload that runs at once, and an environment for it.

    The workload is training_code/NAME, which trains, evaluates and answers.
    """
    kind = trainer or task or TASKS[0]
    folder, file = write_workload(workspace.root, name, kind, framework or DEFAULT_FRAMEWORK)
    steps = {
        "shoal check": "what is wrong with the files, before anything is paid",
        f"shoal plan {name}": "what it would consist of and cost",
        f"shoal demo {name}": "all of it on this machine: deploy, train, evaluate, serve, destroy",
    }
    width = max(map(len, steps))
    tell(
        f"{folder}/ is a workload that runs; {file} says where",
        folder=folder,
        environment_file=file,
    )
    tell("next:")
    for command, purpose in steps.items():
        tell(f"  {command:{width}}  {purpose}", next=[command])
    tell(f"to run it beside others: `{name}: {{}}` below `workloads` in an environment's file")


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
