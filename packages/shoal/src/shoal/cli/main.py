"""The entry of the `shoal` command: read the arguments, and turn every outcome into an exit code.

0: it worked. 1: what was run failed. 2: wrong usage or configuration, nothing was changed. 3: there
is nothing to promote. 130: interrupted, and cleaned up; a deployment says what goes on without it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from shoal.cli.endings import (
    FAILED,
    INTERRUPTED,
    OK,
    error_document,
    exit_code_of,
    interrupted_once,
    is_answer,
)
from shoal.cli.lazy import Deferred, LazyGroup

_CODE = Path(__file__).resolve().parents[1]
_SOURCES = Path("packages/shoal/src/shoal")
_READING = frozenset(
    {
        "chain",
        "check",
        "docs",
        "doctor",
        "logs",
        "plan",
        "release",
        "runs",
        "ssh",
        "status",
        "watch",
    }
)
"""Commands that change nothing."""


def _checkout() -> Path:
    """Return the repository to work in: the nearest one around the working directory, or else the
    one that this program is part of.
    """
    folders = (Path.cwd(), *Path.cwd().parents, *_CODE.parents)
    return next((each for each in folders if (each / "cdk.json").is_file()), Path.cwd())


def _is_checkouts() -> bool:
    return _CODE.parts[-len(_SOURCES.parts) :] == _SOURCES.parts


def _require_own_code(root: Path, command: str | None) -> None:
    """Refuse to change something with the code of another checkout than `root`, and else say it.

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
    ("approve", "models.promote", "Approve a version of ENV's registry, as yourself."),
    (
        "chain",
        "platform.check",
        "Print the environments, each after the one that it takes releases from.",
    ),
    ("check", "platform.check", "Validate every environment's and every workload's file."),
    ("data", "models.workload", "The dataset of an environment."),
    ("demo", "models.demo", "Run all of it on this machine, from deploy to destroy."),
    ("deploy", "platform.deployment", "Deploy the stacks of ENV, with all that they need."),
    ("destroy", "platform.destroy", "Stop what runs in ENV, and delete all that it has."),
    ("diff", "platform.deployment", "Compare ENV as the checkout has it with what is deployed."),
    ("docs", "platform.docs", "Print PAGE of the documentation, or the names of all pages."),
    ("doctor", "platform.doctor", "Ask AWS what decides whether ENV can be deployed and train."),
    ("image", "platform.deployment", "The container images that an environment builds for itself."),
    (
        "init",
        "platform.repository",
        "Write a repository for a team that trains with Shoal into FOLDER.",
    ),
    ("invoke", "models.inference", "Send a file to a running endpoint and print its answer."),
    ("local", "platform.local", "AWS on this machine: the emulator."),
    ("logs", "models.executions", "Print what STEP of EXECUTION has logged."),
    ("ssh", "models.executions", "Print the command that opens a shell in the running training."),
    ("mcp", "platform.programs", "Answer an agent's calls of verbs, over MCP."),
    ("new", "models.workload", "Write a workload that runs at once, and an environment for it."),
    ("plan", "platform.plan", "Show what ENV would consist of and cost; nothing is created."),
    ("promote", "models.promote", "Pin a model of one environment in the file of the next."),
    ("prove", "platform.prove", "Type the first run on AWS in ACCOUNT, and take it all away."),
    ("release", "models.promote", "The models that environments pin."),
    ("report", "models.runs", "Write the page of RUN (an ARN, an id, or `latest`)."),
    ("run", "models.executions", "Start an execution of ENV's pipeline."),
    ("runs", "models.runs", "List the runs of ENV: what each measured, took and cost."),
    ("schedule", "models.schedule", "When the pipeline of an environment starts by itself."),
    ("schema", "platform.programs", "Print the schemas of what verbs print with --json."),
    ("score", "models.inference", "Score the rows of ENV's dataset with an approved model."),
    ("status", "models.executions", "Show the executions of ENV, or the steps of EXECUTION."),
    ("stop", "models.executions", "Ask EXECUTION (an ARN, an id, or `latest`) to stop."),
    ("synth", "platform.deployment", "Write the CloudFormation templates of ENV, or of all."),
    (
        "upgrade",
        "platform.repository",
        "Go over to another version of Shoal, in one commit on a branch.",
    ),
    ("watch", "models.executions", "Follow EXECUTION (an ARN, an id, or `latest`) to its end."),
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

    _require_own_code(root, context.invoked_subcommand)
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
        click.echo(json.dumps(error_document(error, message, code), indent=2))
    return code
