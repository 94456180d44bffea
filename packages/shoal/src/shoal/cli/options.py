"""Arguments and options that many commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
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


local_option = click.option(
    "--local",
    is_flag=True,
    help="Use the emulator on this machine, whatever the environment's `target` says.",
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

limit_option = click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many, newest first.",
)
score_option = click.option(
    "--score",
    is_flag=True,
    help="The pipeline that scores rows with an approved model, not the one that trains.",
)

enforce_iam_option = click.option(
    "--enforce-iam",
    is_flag=True,
    help="Refuse what the policies of a caller's role do not allow, as AWS does.",
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


def session_command(command: _Command) -> Callable[..., Any]:
    """Give the command a `session`, one workload of ENV, instead of ENV, WORKLOAD and --local."""
    return _with_session(command, lambda workspace, *words: workspace.open(*words))


def whole_command(command: _Command) -> Callable[..., Any]:
    """Give the command a `session` of all workloads of ENV, or of the one that is named."""
    return _with_session(command, lambda workspace, *words: workspace.open_whole(*words))


def _with_session(command: _Command, open_session: Callable[..., Session]) -> Callable[..., Any]:
    @environment_argument
    @local_option
    @click.pass_obj
    @wraps(command)
    def with_session(
        workspace: Workspace, /, environment: str, workload: str | None, local: bool, **rest: Any
    ) -> None:
        command(open_session(workspace, environment, local, workload), **rest)

    return with_session
