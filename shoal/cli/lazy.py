"""A group of commands that imports a command only when it is called, so that help and mistakes in
names answer at once.

click's documentation (Complex Applications, Lazily Loading Subcommands) has the idea; there, the
group's help loads all of them.
"""

from __future__ import annotations

from importlib import import_module

import click


class Deferred(click.Command):
    """Stands for a command in its group's help: the name, where the command is, and the beginning
    of its help.
    """

    def __init__(self, name: str, place: str, summary: str) -> None:
        """`place` is `module:attribute`."""
        super().__init__(name, help=summary)
        self.place = place

    def load(self) -> click.Command:
        """The command itself."""
        module, _, attribute = self.place.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.place} is no command")
        return command


class LazyGroup(click.Group):
    """A group in which `Deferred` commands are replaced by themselves as soon as one is called."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Deferred) else command, rest
