"""What a verb answers: lines for people, or with `--json` one document for programs.

`@answers(NAME=TYPE, ...)` declares the facts of a verb's document, and `tell` prints a line, or
with `--json` keeps its facts. Then stdout has only the document, and stderr what else is printed.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial, wraps
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeVar, cast, get_origin

import click
from pydantic import ConfigDict, TypeAdapter, WithJsonSchema
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from shoal.cli.main import FAILED, INTERRUPTED, Deferred, is_answer
from shoal.page.record import json_text
from shoal.settings.parsing.errors import one_line
from shoal.verbs.flow import Outcome

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FACTS = "shoal.facts"
_RUN: dict[str, Any] = json.loads((files("shoal.page") / "run.schema.json").read_text())
Verdict = Annotated[dict[str, Any], WithJsonSchema(_RUN["properties"]["verdict"])]
"""How a run went: step, reason, host, rank, line and `next`, as run.json has it."""
_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one document, as `shoal docs schemas` has it."
)


def answers(*, or_run: bool = False, **facts: Any) -> Callable[[_Command], _Command]:
    """Give a command `--json`, for a document with these facts (`or_run`: and those of run.json).

    What was not told is null or empty. A change that is no addition takes another number.
    """

    def declare(command: _Command) -> _Command:
        @_option
        @wraps(command)
        def answering(*arguments: Any, as_json: bool, **options: Any) -> None:
            if not as_json:
                command(*arguments, **options)
                return
            context = click.get_current_context()
            name = f"shoal/{'-'.join(context.command_path.split()[1:])}/1"
            context.meta[_FACTS] = {"schema": name} | {each: _empty(facts[each]) for each in facts}
            try:
                with redirect_stdout(sys.stderr):
                    command(*arguments, **options)
            finally:
                if is_answer(sys.exception()):
                    click.echo(json_text(context.meta[_FACTS], indent=2))

        answering.schema = partial(schema_of, facts, or_run)  # type: ignore[attr-defined]
        return answering  # type: ignore[return-value]

    return declare


def schema_of(facts: Mapping[str, Any], or_run: bool, verb: str) -> dict[str, Any]:
    """Return the JSON schema of a verb's document, or of another with these facts."""
    name = Literal[f"shoal/{verb}/1"]  # type: ignore[valid-type]
    form = TypedDict(verb, {"schema": name, **facts})  # type: ignore[misc]
    form.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]
    schema = TypeAdapter(form).json_schema()
    schema["properties"] |= _RUN["properties"] if or_run else {}
    return schema


def tell(
    line: str | bytes | None = None, /, *, err: bool = False, nl: bool = True, **facts: Any
) -> None:
    """Print a line, or with `--json` keep the facts: a list or a dict is added to what is there."""
    if not is_json():
        if line is not None:
            click.echo(line, err=err, nl=nl)
        return
    told = click.get_current_context().meta[_FACTS]
    for name, value in facts.items():
        match told.get(name):
            case list() as items:
                items.extend(value)
            case dict() as items:
                items.update(value)
            case _:
                told[name] = value


def is_json() -> bool:
    """Return whether the verb that runs is asked for JSON."""
    context = click.get_current_context(silent=True)
    return context is not None and _FACTS in context.meta


def exit_as(outcome: Outcome) -> None:
    """Tell what failed, and exit as a row of phases ended."""
    verb = click.get_current_context().command_path
    for each in outcome.failures:
        failure = {"phase": each.phase, "message": each.message}
        tell(f"{verb}: {each.phase}: {each.message}", err=True, failures=[failure])
    if outcome.failures:
        raise click.exceptions.Exit(INTERRUPTED if outcome.interrupted else FAILED)


def verbs(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield the name of each verb in its documents, such as `schedule-list`, and its command, which
    from then on is in its group.
    """
    for name, listed in sorted(group.commands.items()):
        command = listed.load() if isinstance(listed, Deferred) else listed
        group.commands[name] = command
        if isinstance(command, click.Group):
            yield from verbs(command, *path, name)
        else:
            yield "-".join((*path, name)), command


def group_of_all() -> click.Group:
    """Return the command `shoal`, in which the one that runs is."""
    return cast("click.Group", click.get_current_context().find_root().command)


def _empty(kind: Any) -> Any:
    origin = get_origin(kind)
    return origin() if origin in (list, dict) else None


def columns(
    rows: Iterable[Sequence[str]], *, indent: str = "", right: bool = False
) -> Iterator[str]:
    """Yield each row as a line, with columns as wide as their widest cell: the same on a terminal
    and in a pipe, and never cut.

    With `right`, all but the first are aligned to the right. Cells may come from outside.
    """
    table = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *rest in table:
        cells = [first.ljust(widths[0])]
        for cell, width in zip(rest, widths[1:], strict=True):
            cells.append(cell.rjust(width) if right else cell.ljust(width))
        yield f"{indent}{'  '.join(cells)}".rstrip()
