"""The entry of the `shoal` command: read the arguments, and turn every outcome into an exit code.

0: it worked. 1: what was run failed. 2: wrong usage or configuration, nothing was changed. 3: there
is nothing to promote. 130: interrupted, and cleaned up; a deployment says what goes on without it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from shoal.cli.exit_codes import INTERRUPTED, OK, exit_code_of
from shoal.cli.interrupts import interrupted_once
from shoal.cli.lazy import Deferred, LazyGroup


def _checkout() -> Path:
    """Return the repository to work in: the one that this program is part of, or else the nearest
    one around the working directory.
    """
    folders = (*Path(__file__).resolve().parents, Path.cwd(), *Path.cwd().parents)
    return next((each for each in folders if (each / "cdk.json").is_file()), Path.cwd())


# Each with the first sentence of its own help, so that this group's help imports none of them; a
# test compares the two.
_COMMANDS = (
    Deferred(
        "approve",
        "shoal.cli.commands.models.promote:approve",
        "Approve a version of ENV's registry, as yourself: PACKAGE (an ARN, or a version's number),"
        " by default the newest.",
    ),
    Deferred(
        "check",
        "shoal.cli.commands.platform.check:check",
        "Validate every environment file and every workload's file.",
    ),
    Deferred("data", "shoal.cli.commands.models.data:data", "The dataset of an environment."),
    Deferred(
        "demo",
        "shoal.cli.commands.models.demo:demo",
        "Run the whole of it on this machine: deploy ENV (dev), upload its data, train, evaluate,"
        " register, serve, and tear down.",
    ),
    Deferred(
        "deploy",
        "shoal.cli.commands.platform.deployment:deploy",
        "Bootstrap the account if needed, and deploy the stacks of ENV with the cdk CLI; with"
        " WORKLOAD its own, and what they need.",
    ),
    Deferred(
        "destroy",
        "shoal.cli.commands.platform.destroy:destroy",
        "Stop what runs in ENV, remove what executions left, and delete the stacks; with WORKLOAD"
        " only what is its own, also of one that left the file.",
    ),
    Deferred(
        "diff",
        "shoal.cli.commands.platform.deployment:diff",
        "Compare ENV as the checkout describes it with what is deployed; exit code 1 if they"
        " differ.",
    ),
    Deferred(
        "doctor",
        "shoal.cli.commands.platform.doctor:doctor",
        "Ask AWS what decides whether ENV can be deployed and can train.",
    ),
    Deferred(
        "image",
        "shoal.cli.commands.platform.image:image",
        "The container image that an environment builds for itself (training.build_image).",
    ),
    Deferred(
        "invoke",
        "shoal.cli.commands.models.invoke:invoke_endpoint",
        "Send a file to a running endpoint and print its answer.",
    ),
    Deferred(
        "local", "shoal.cli.commands.platform.local:local", "AWS on this machine: the emulator."
    ),
    Deferred(
        "logs",
        "shoal.cli.commands.models.executions:logs",
        "Print what STEP of EXECUTION (an ARN, an id, or `latest`) has logged.",
    ),
    Deferred(
        "new",
        "shoal.cli.commands.models.new:new",
        "Write training_code/NAME, a workload that trains, evaluates and answers at once, and an"
        " environment for it.",
    ),
    Deferred(
        "plan",
        "shoal.cli.commands.platform.plan:show_plan",
        "Show what ENV would consist of and what it would cost, at rest and per hour of training,"
        " before anything is created.",
    ),
    Deferred(
        "promote",
        "shoal.cli.commands.models.promote:promote",
        "Pin a model that passed in one environment in the file of the next, in a commit on a"
        " branch of its own.",
    ),
    Deferred(
        "release", "shoal.cli.commands.models.promote:release", "The models that environments pin."
    ),
    Deferred(
        "report",
        "shoal.cli.commands.models.runs:report",
        "Write the page of RUN (an ARN, an id, or `latest`): one file that needs no network.",
    ),
    Deferred(
        "run", "shoal.cli.commands.models.executions:run", "Start an execution of ENV's pipeline."
    ),
    Deferred(
        "runs",
        "shoal.cli.commands.models.runs:runs",
        "List the runs of ENV's pipeline: what each measured, took and cost.",
    ),
    Deferred(
        "schedule",
        "shoal.cli.commands.models.schedule:schedule",
        "When the pipeline of an environment starts by itself.",
    ),
    Deferred(
        "status",
        "shoal.cli.commands.models.executions:status",
        "Show the executions of ENV's pipeline, or the steps of EXECUTION (an ARN, an id, or"
        " `latest`).",
    ),
    Deferred(
        "stop",
        "shoal.cli.commands.models.executions:stop",
        "Ask EXECUTION (an ARN, an id, or `latest`) to stop.",
    ),
    Deferred(
        "synth",
        "shoal.cli.commands.platform.deployment:synth",
        "Write the CloudFormation templates of ENV, or of every environment, to cdk.out.",
    ),
    Deferred(
        "watch",
        "shoal.cli.commands.models.executions:watch",
        "Follow EXECUTION (an ARN, an id, or `latest`) to its end.",
    ),
)


def _print_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        from shoal.repository import Repository  # imports botocore

        version = Repository(_checkout(), os.environ).description()
        click.echo(f"shoal {version or 'of an unknown commit: git knows nothing of its folder'}")
        context.exit()


@click.group(
    cls=LazyGroup,
    commands=_COMMANDS,
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
    help="Show the commit that this is, and exit.",
)
@click.pass_context
def shoal(context: click.Context, root: Path) -> None:
    """Distributed training on SageMaker as code: deploy, run, watch and tear down, on AWS or on
    this machine.
    """
    from shoal.verbs.workspace import Workspace  # imports boto3, which help can do without

    context.obj = Workspace(root.resolve(), dict(os.environ))


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. Users see one message, never a traceback."""
    try:
        with interrupted_once():
            return int(shoal.main(args=arguments, prog_name="shoal", standalone_mode=False) or OK)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("shoal: interrupted", err=True)
        return INTERRUPTED
    except Exception as error:
        from shoal.errors import refusal  # imports botocore
        from shoal.settings.parsing.errors import one_line

        code = exit_code_of(error)
        if code is None:
            raise
        lines = (one_line(line) for line in refusal(error).split("\n"))
        click.echo("shoal: " + "\n".join(lines), err=True)
        return code


if __name__ == "__main__":
    sys.exit(main())
