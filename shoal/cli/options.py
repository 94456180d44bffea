"""Arguments and options that many commands share."""

from __future__ import annotations

import click

environment_argument = click.argument("environment", metavar="ENV")
local_option = click.option(
    "--local",
    is_flag=True,
    help="Use the emulator on this machine, whatever the environment's `target` says.",
)
