"""The entry of the `shoal` command: read arguments, and turn every outcome into an exit code, which
its help and the README tell.

Ctrl-C, SIGTERM and SIGHUP are one KeyboardInterrupt: the first signal interrupts; later ones
cannot disturb the clean-up.
"""

import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import click

OK, FAILED, USAGE, NOTHING_TO_DO, INTERRUPTED = 0, 1, 2, 3, 130
_DISK = {errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.ENAMETOOLONG}
"""What the user's disk refuses, which is no bug; `str()` of such an OSError names the file."""


def exit_code_of(error: Exception) -> int | None:
    """Return the exit code that a failure means, or None for a bug."""
    # botocore and pydantic, which help does without
    from shoal.errors import AWS_ERRORS, NothingToPromoteError, ShoalError, UsageError
    from shoal.settings.parsing.errors import ConfigError

    if isinstance(error, NothingToPromoteError):
        return NOTHING_TO_DO
    if isinstance(error, ConfigError | UsageError):
        return USAGE
    if isinstance(error, OSError) and error.errno in _DISK:
        return FAILED
    return FAILED if isinstance(error, (ShoalError, *AWS_ERRORS)) else None


def is_answer(error: BaseException | None) -> bool:
    """Return whether a verb that raises this, or None, has answered; what it tells may be bad."""
    from shoal.errors import DisagreementError, ExecutionError

    kinds = (click.exceptions.Exit, DisagreementError, ExecutionError)
    return error is None or isinstance(error, kinds)


def error_document(error: BaseException, message: str, exit_code: int) -> dict[str, Any]:
    """Return what a verb that failed prints with `--json`; `kind` is a class's name."""
    told = {"kind": type(error).__name__, "message": message, "exit_code": exit_code}
    return {"schema": "shoal/error/1", "error": told}


ENDS = "interrupted: ends what runs, takes all away; minutes here, up to half an hour on AWS"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_once(note: str = "") -> Iterator[Callable[[], None]]:
    """Yield `shield`. The first signal prints the note, which says what ends now.

    After it is called, and after the first signal, further signals only print a note.
    """
    shielded = False

    def shield() -> None:
        nonlocal shielded
        shielded = True

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal shielded
        if shielded:  # print() is not safe in a handler
            os.write(2, b"\ncleaning up; this cannot be interrupted\n")
            return
        shielded = True
        if note:
            os.write(2, f"\n{note}\n".encode())
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield shield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class Deferred(click.Command):
    """A command's name, its module below `shoal.cli.commands`, and the beginning of its help."""

    def __init__(self, name: str, module: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self.module = f"shoal.cli.commands.{module}"

    def load(self) -> click.Command:
        """Return the command itself, which its module has by its name."""
        command: click.Command = getattr(import_module(self.module), str(self.name))
        return command


class LazyGroup(click.Group):
    """A group that imports a `Deferred` command only when it is called, so that help and mistakes
    in names answer at once; click's own lazy groups load every command for their help.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Deferred) else command, rest


_CODE = Path(__file__).resolve().parents[1]
_SOURCES = Path("packages/shoal/src/shoal")
_READING = frozenset(["check", "docs", "doctor", "logs", "plan", "release", "status"])
"""Commands that change nothing, but for `release approve` and `plan --templates`."""


def _checkout() -> Path:
    """Return the nearest repository around the working directory, or else this program's own."""
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise click.UsageError("the working directory is gone; go to another one") from error
    folders = (here, *here.parents, *_CODE.parents)
    return next((each for each in folders if (each / "cdk.json").is_file()), here)


def _is_checkouts() -> bool:
    return _CODE.parts[-len(_SOURCES.parts) :] == _SOURCES.parts


def require_own_code(root: Path, command: str | None = None) -> None:
    """Raise UsageError where this program is the code of another checkout than `root`; of a command
    that changes nothing only say it.

    The program of an environment that was copied, or is linked, names the path where it was made.
    A repository without sources of its own, or a wheel, has no such code.
    """
    others = root / _SOURCES
    if not _is_checkouts() or not others.is_dir() or others.samefile(_CODE):
        return
    message = f"this program is the code of {_CODE.parents[3]}, not of {root}"
    if command not in _READING:
        raise click.UsageError(f"{message}; run `make install` there, and its .venv/bin/shoal")
    click.echo(f"shoal: {message}", err=True)


# Each with the module that has it and the first sentence of its own help, so that this group's help
# imports none of them; a test compares the two.
_COMMANDS = (
    ("check", "check", "Validate every environment's and every workload's file."),
    ("data", "repository", "The dataset of an environment."),
    ("demo", "local", "Run all of it on this machine, from deploy to destroy."),
    ("deploy", "deployment", "Deploy the stacks of ENV, with all that they need."),
    ("destroy", "destroy", "Stop what runs in ENV, and delete all that it has."),
    ("diff", "deployment", "Compare ENV as the checkout has it with what is deployed."),
    ("docs", "programs", "Print PAGE of the documentation, or the names of all pages."),
    ("doctor", "account", "Ask AWS what decides whether ENV can be deployed and train."),
    (
        "init",
        "repository",
        "Write a repository for a team that trains with Shoal into FOLDER.",
    ),
    ("invoke", "inference", "Send a file to a running endpoint and print its answer."),
    ("local", "local", "AWS on this machine: the emulator."),
    ("logs", "executions", "Print what STEP of EXECUTION has logged."),
    ("mcp", "programs", "Answer an agent's calls of verbs, over MCP."),
    ("new", "repository", "Write a workload that runs at once, and an environment for it."),
    ("plan", "plan", "Show what ENV would consist of and cost; nothing is created."),
    ("promote", "promote", "Pin a model of one environment in the file of the next."),
    ("prove", "account", "Type the first run on AWS in ACCOUNT, and take it all away."),
    ("release", "promote", "The models that environments pin."),
    ("report", "runs", "Write the page of RUN (an ARN, an id, or `latest`)."),
    ("run", "executions", "Start an execution of ENV's pipeline."),
    ("schedule", "runs", "When the pipeline of an environment starts by itself."),
    ("status", "executions", "Show the executions of ENV, or the steps of one."),
    ("stop", "executions", "Ask EXECUTION (an ARN, an id, or `latest`) to stop."),
    (
        "upgrade",
        "repository",
        "Go over to another version of Shoal, in one commit on a branch.",
    ),
)


def _print_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        from importlib import metadata

        from shoal.repository import Repository  # imports botocore

        commit = Repository(_CODE, os.environ).description() if _is_checkouts() else ""
        click.echo(f"shoal {commit or metadata.version('shoal')}")
        context.exit()


@click.group(
    cls=LazyGroup,
    commands=[Deferred(*row) for row in _COMMANDS],
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit codes: 0 it worked, 1 what was run failed, 2 wrong usage or configuration, 3 nothing"
        " to promote, 130 interrupted (and cleaned up)."
    ),
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=_checkout,
    help="The checkout to work in.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version or the commit that this is, and exit.",
)
@click.pass_context
def shoal(context: click.Context, root: Path) -> None:
    """Distributed training on SageMaker as code, on AWS or on this machine."""
    from shoal.verbs.workspace import Workspace  # imports boto3, which help can do without

    require_own_code(root, context.invoked_subcommand)
    context.obj = Workspace(root.resolve(), dict(os.environ))


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. Users see one message, never a traceback; with
    --json also one document.
    """
    words = sys.argv[1:] if arguments is None else arguments
    try:
        with interrupted_once():
            return int(shoal.main(args=words, prog_name="shoal", standalone_mode=False) or OK)
    except click.ClickException as error:
        error.show()
        return _failed(words, error, error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt) as error:
        click.echo("shoal: interrupted", err=True)
        return _failed(words, error, "interrupted", INTERRUPTED)
    except Exception as error:
        from shoal.errors import refusal  # imports botocore
        from shoal.settings.parsing.errors import one_line

        code = exit_code_of(error)
        message = "\n".join(one_line(line) for line in refusal(error).split("\n"))
        if code is None:
            _failed(words, error, message, FAILED)
            raise
        click.echo(f"shoal: {message}", err=True)
        return _failed(words, error, message, code)


def _failed(words: Sequence[str], error: BaseException, message: str, code: int) -> int:
    """Print the document of the error where one is asked for; return the exit code."""
    if "--json" in words and not is_answer(error):
        with suppress(OSError):  # as of a disk that is full
            click.echo(json.dumps(error_document(error, message, code), indent=2))
    return code
