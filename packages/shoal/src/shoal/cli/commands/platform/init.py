"""`shoal init`: asks what is not given, where there is a terminal, and says what comes next."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import click

from shoal.cli.exit_codes import FAILED
from shoal.errors import UsageError
from shoal.verbs.init.answers import KINDS, Ci, answers_of

_ENVIRONMENTS = ("dev", "staging", "prod")
_PLACEHOLDER = "111122223333"
_PLACE = "ACCOUNT[/REGION]"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--project", metavar="NAME", help="What all is called by (the folder's name).")
@click.option("--workload", metavar="NAME", help="The first model (my-model).")
@click.option("--kind", type=click.Choice(KINDS), help=f"What it is ({KINDS[0]}).")
@click.option("--region", metavar="REGION", help="Where no other is given (us-east-1).")
@click.option(
    "--dev",
    metavar=_PLACE,
    help=f"Of the environment dev ({_PLACEHOLDER}, which runs on this machine only).",
)
@click.option("--staging", metavar=_PLACE, help="Of the next environment (none).")
@click.option("--prod", metavar=_PLACE, help="Of the last environment (none).")
@click.option(
    "--ci", type=click.Choice([each.value for each in Ci]), help="Who tests each change (none)."
)
@click.option(
    "--wheels",
    metavar="PLACE",
    default="",
    help="Folder or page with Shoal's wheels, where no package index has them.",
)
def init(folder: Path, wheels: str, **given: str | None) -> None:
    """Write a repository for a team that trains with Shoal into FOLDER.

    What is not given is asked, where there is a terminal, and else is what stands in parentheses.
    """
    from shoal.verbs.init.repository import init as make
    from shoal.verbs.init.repository import require_empty

    folder = folder.absolute()
    require_empty(folder)
    data: dict[str, Any] = {
        "project": _answer("Project", given["project"], folder.name),
        "workload": _answer("Name of the first model", given["workload"], "my-model"),
        "kind": _answer("Its kind", given["kind"], KINDS[0], KINDS),
        "wheels": str(Path(wheels).absolute()) if Path(wheels).is_dir() and wheels else wheels,
        "environments": _places(given),
        "ci": _answer(
            "Who tests each change", given["ci"], Ci.NONE.value, [each.value for each in Ci]
        ),
    }
    problem = make(answers_of(data), folder)
    for name, place in data["environments"].items():
        note = ", a placeholder" if place["account"] == _PLACEHOLDER else ""
        click.echo(f"{name:8} account {place['account']}{note}, {place['region']}")
    click.echo(f"{folder} is your repository: read its README.md")
    if problem:
        click.echo(
            f"shoal: requirements.txt is missing, because locking failed: {problem}\n"
            "where a package index answers, run in that folder:"
            f" {sys.executable} -m shoal.verbs.init.locking",
            err=True,
        )
        raise click.exceptions.Exit(FAILED)
    click.echo(f"next: cd {folder.name} && git init && make demo")


def _places(given: dict[str, str | None]) -> dict[str, dict[str, str]]:
    region = _answer("Region", given["region"], "us-east-1")
    places = {}
    for name in _ENVIRONMENTS:
        default = _PLACEHOLDER if name == "dev" else ""
        account = _answer(f"Account of {name}", given[name], default)
        if not account:
            continue
        match = re.fullmatch(r"([^/]*)(?:/([^/]*))?", account)
        if match is None:
            raise UsageError(f"--{name} {account}: give {_PLACE}")
        places[name] = {"account": match[1], "region": match[2] or region}
    return places


def _answer(question: str, given: str | None, default: str, choices: Any = None) -> str:
    if given is not None or not sys.stdin.isatty():
        return default if given is None else given
    kind = click.Choice(choices) if choices else None
    return str(click.prompt(question, default=default, type=kind, show_default=bool(default)))
