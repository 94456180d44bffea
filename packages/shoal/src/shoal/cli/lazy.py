"""A group of commands that imports a command only when it is called.

So help and mistakes in names answer at once. The idea is from click's documentation (Complex
Applications, Lazily Loading Subcommands); there, the group's help loads every command.
"""

from __future__ import annotations

from importlib import import_module

import click

FORMER = {
    "drift": "use `shoal diff`, `cdk drift`, and `shoal release status` for what is pinned and"
    " served",
    "compare": "`shoal report` writes the page of a run, which compares it with the one before",
    "dashboard": "CloudWatch shows it, and `aws cloudwatch get-dashboard` prints it",
    "export": "use `shoal report ENV RUN --mlflow URI`",
    "strategies": "use `shoal plan ENV --strategies`",
    "sweep": "use `shoal destroy ENV --leftovers`",
    "ui": "use `shoal runs ENV`, and `shoal report` for the page of a run",
}
"""Commands that are gone, and what to use instead."""


class Deferred(click.Command):
    """A placeholder in the group's help: a command's name, its module below `shoal.cli.commands`,
    and the beginning of its help.
    """

    def __init__(self, name: str, module: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self.module = f"shoal.cli.commands.{module}"

    def load(self) -> click.Command:
        """Return the command itself, which its module has by its name."""
        command = getattr(import_module(self.module), str(self.name))
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.name} of {self.module} is no command")
        return command


class LazyGroup(click.Group):
    """A group that replaces a `Deferred` command by the command itself when it is called."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in FORMER:
            ctx.fail(f"There is no command '{args[0]}' any more; {FORMER[args[0]]}.")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Deferred) else command, rest
