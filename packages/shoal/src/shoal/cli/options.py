"""Arguments and options that many commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from itertools import product
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from shoal.verbs.workspace import Session, Workspace

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Workload(click.Argument):
    """A word after ENV that is the workload if ENV has one of that name, and else the next
    argument's: `shoal status dev prices latest`, `shoal status dev latest`.

    Where no argument follows, any word is the workload, and the loader says which there are.
    """

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        arguments = [each for each in ctx.command.params if isinstance(each, click.Argument)]
        _, *following = arguments[arguments.index(self) :]
        if following and not ctx.resilient_parsing and isinstance(opts, dict):
            args = self._shift(ctx, following, opts) + args
        return super().handle_parse_result(ctx, opts, args)

    def _shift(
        self, ctx: click.Context, following: list[click.Argument], opts: dict[str, Any]
    ) -> list[str]:
        """Give the words to the arguments that follow unless the first one is the workload; return
        those that are too many.
        """
        names = [self.name, *(each.name for each in following)]
        words = [word for name in names if isinstance(word := opts.get(name), str)]
        if not words or _is_workload(ctx, words, following):
            return []
        for name in names:
            opts.pop(name, None)
        opts.update(zip(names[1:], words, strict=False))
        return words[len(following) :]


def _is_workload(ctx: click.Context, words: list[str], following: list[click.Argument]) -> bool:
    """Return whether the first of the words is the workload.

    It need not be named where there is only one, so arguments that are required go first there.
    Without a checkout, as when a command in a page is checked, the number of words decides.
    """
    if ctx.obj is None:
        return len(words) > len(following)
    from shoal.settings.loading.loader import workloads_of  # help can do without

    required = sum(each.required for each in following)
    workloads = workloads_of(ctx.params["environment"], ctx.obj.root)
    return words[0] in workloads and (len(workloads) > 1 or len(words) > required)


def name_of(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Return the environment's name, for its file too: tab completion gives that."""
    file = PurePath(value or "")
    is_file = file.suffix == ".yaml" and file.parent.name in ("", "environments")
    return file.stem if is_file else value


def environment_argument(command: _Command) -> _Command:
    """Give the command `environment`, and `workload`: None where none is named."""
    workload = click.argument("workload", cls=_Workload, metavar="[WORKLOAD]", required=False)
    return click.argument("environment", metavar="ENV", callback=name_of)(workload(command))


flag = partial(click.option, is_flag=True)
local_option = flag(
    "--local", help="Use the emulator on this machine, whatever the environment's `target` says."
)

strategy_option = click.option(
    "--strategy",
    metavar="NAME",
    help="Another way to distribute the training: a file in environments/strategies/.",
)


parameter_option = click.option(
    "--parameter",
    "-p",
    "parameters",
    multiple=True,
    metavar="KEY=VALUE",
    help="A pipeline parameter; may be repeated.",
)

score_option = flag(
    "--score", help="The pipeline that scores rows with an approved model, not the one that trains."
)

enforce_iam_option = flag(
    "--enforce-iam", help="Refuse what the policies of a caller's role do not allow, as AWS does."
)


def excluding(some: str, others: str) -> Callable[[_Command], _Command]:
    """Let a command refuse each of some words with each of the others, which would do nothing, such
    as `--check` and `EXECUTION`. It stands above all that opens something.
    """

    def declare(command: _Command) -> _Command:
        @wraps(command)
        def refusing(*arguments: Any, **options: Any) -> None:
            context = click.get_current_context()
            given = {
                word if isinstance(each, click.Option) else word.upper()
                for each in context.command.params
                if context.get_parameter_source(str(each.name)) is ParameterSource.COMMANDLINE
                for word in each.opts
            }
            for one, other in product(some.split(), others.split()):
                if {one, other} <= given:
                    raise click.UsageError(f"{one} and {other} exclude each other; give one")
            command(*arguments, **options)

        return refusing  # type: ignore[return-value]

    return declare


@dataclass(frozen=True)
class Selection:
    """What ENV, WORKLOAD and --local name."""

    workspace: Workspace
    environment: str
    workload: str | None
    local: bool

    def open(self) -> Session:
        """Return one workload of ENV."""
        return self.workspace.open(self.environment, self.local, self.workload)

    def open_whole(self) -> Session:
        """Return all workloads of ENV, or the one that is named."""
        return self.workspace.open_whole(self.environment, self.local, self.workload)


def _giving(value_of: Callable[[Selection], Any], command: _Command) -> Callable[..., Any]:
    """Give the command what `value_of` makes of ENV, WORKLOAD and --local, instead of these."""

    @environment_argument
    @local_option
    @click.pass_obj
    @wraps(command)
    def with_value(
        workspace: Workspace, /, environment: str, workload: str | None, local: bool, **rest: Any
    ) -> None:
        command(value_of(Selection(workspace, environment, workload, local)), **rest)

    return with_value


selection_command = partial(_giving, lambda selection: selection)
session_command = partial(_giving, Selection.open)
whole_command = partial(_giving, Selection.open_whole)
