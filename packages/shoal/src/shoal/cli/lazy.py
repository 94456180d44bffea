"""A group of commands that imports a command only when it is called.

So help and mistakes in names answer at once. The idea is from click's documentation (Complex
Applications, Lazily Loading Subcommands); there, the group's help loads every command.
"""

from __future__ import annotations

from importlib import import_module

import click


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
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Deferred) else command, rest
