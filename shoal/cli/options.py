"""Arguments and options that many commands share."""

from __future__ import annotations

from pathlib import PurePath

import click


def _name(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Return the environment's name, for its file too: tab completion gives that."""
    file = PurePath(value)
    is_file = file.suffix == ".yaml" and file.parent.name == "environments"
    return file.stem if is_file else value


environment_argument = click.argument("environment", metavar="ENV", callback=_name)
local_option = click.option(
    "--local",
    is_flag=True,
    help="Use the emulator on this machine, whatever the environment's `target` says.",
)
