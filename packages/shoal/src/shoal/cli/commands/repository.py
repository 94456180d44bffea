"""`shoal init | upgrade | new | data upload`: a team's repository, its workloads and their
datasets.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from shoal.cli.answers import answers, tell
from shoal.cli.main import FAILED
from shoal.cli.options import excluding, session_command
from shoal.cli.view import open_view
from shoal.verbs import dataset
from shoal.verbs.init import CI, KINDS, answers_of, require_empty
from shoal.verbs.init import init as make
from shoal.verbs.new_workload import DEFAULT_FRAMEWORK, FRAMEWORKS, TASKS, TRAINERS, write_workload
from shoal.verbs.upgrade import begin
from shoal.verbs.workspace import Session, Workspace

_PLACEHOLDER = "111122223333"
_PLACES = {"dev": _PLACEHOLDER, "staging": "", "prod": ""}
"""Each environment, and its account where none is given."""
_PLACE = "ACCOUNT[/REGION]"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--project", metavar="NAME", help="What all is called by (the folder's name).")
@click.option("--workload", metavar="NAME", help="The first model (my-model).")
@click.option("--kind", type=click.Choice(KINDS), help=f"What it is ({KINDS[0]}).")
@click.option("--region", help="Where no other is given (us-east-1).")
@click.option("--dev", metavar=_PLACE, help=f"Of dev ({_PLACEHOLDER}: on this machine only).")
@click.option("--staging", metavar=_PLACE, help="Of staging (there is none).")
@click.option("--prod", metavar=_PLACE, help="Of prod (there is none).")
@click.option("--ci", type=click.Choice(CI), help="Who tests each change (none).")
@click.option(
    "--wheels",
    metavar="PLACE",
    default="",
    help="Shoal's wheels: a folder, which is copied, or a page.",
)
@answers(folder=str, environments=dict[str, dict[str, str]], problem=str | None)
def init(folder: Path, wheels: str, **given: str | None) -> None:
    """Write a repository for a team that trains with Shoal into FOLDER.

    What is not given is asked, where there is a terminal, and else is what stands in parentheses.
    """
    folder = folder.resolve()  # `new/..` is its parent
    require_empty(folder)
    data: dict[str, Any] = {
        "wheels": str(Path(wheels).absolute()) if wheels and Path(wheels).is_dir() else wheels,
        "project": _answer("Project", given["project"], folder.name),
        "workload": _answer("Name of the first model", given["workload"], "my-model"),
        "kind": _answer("Its kind", given["kind"], KINDS[0], KINDS),
        "ci": _answer("Who tests each change", given["ci"], CI[-1], CI),
        "environments": {},
    }
    region = _answer("Region", given["region"], "us-east-1")
    for name, default in _PLACES.items():
        question = f"Account of {name}{'' if default else ' (empty: there is none)'}"
        account, _, own = _answer(question, given[name], default).partition("/")
        if account:
            data["environments"][name] = {"account": account, "region": own or region}
    problem = make(answers_of(data), folder)
    for name, place in data["environments"].items():
        note = ", a placeholder" if place["account"] == _PLACEHOLDER else ""
        line = f"{name:8} account {place['account']}{note}, {place['region']}"
        tell(line, environments={name: place})
    tell(f"{folder} is your repository: read its README.md", folder=folder, problem=problem)
    if problem:
        command = f"cd {shlex.quote(str(folder))} && {sys.executable} -m shoal.verbs.init"
        click.echo(f"shoal: requirements.txt is missing, because {problem}", err=True)
        click.echo(f"where a package index answers, run: {command}", err=True)
        raise click.exceptions.Exit(FAILED)
    tell(f"next: cd {shlex.quote(folder.name)} && git init && make demo")


def _answer(question: str, given: str | None, default: str, among: Sequence[str] = ()) -> str:
    if given is not None or not (sys.stdin and sys.stdin.isatty()):
        return default if given is None else given
    kind = click.Choice(among) if among else None
    return str(click.prompt(question, default=default, type=kind, show_default=bool(default)))


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
