"""The entry of the `shoal` command: reads the arguments and the environment variables once, and turns every outcome into an exit code.

0: it worked. 1: what was run failed. 2: wrong usage or configuration, nothing was changed. 130: interrupted, and cleaned up.
"""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path

import click
from rich.console import Console

from cli import local, verbs
from cli.dashboard import dashboard
from cli.demo import Choice, run_demo
from cli.demo_report import message_of, print_result, summary_of_file
from cli.doctor import doctor
from cli.drift import show_drift
from cli.gitops_demo import run_gitops
from cli.gitops_report import print_result as print_gitops_result
from cli.image import image
from cli.interrupts import interrupted_once
from cli.parameters import parse_parameters
from cli.plan import show_plan
from cli.promote import approve, promote, release
from cli.schedule import schedule
from cli.strategies import strategies
from cli.sweep import sweep
from cli.view import open_view
from cli.workspace import Workspace
from config.errors import ConfigError
from config.loader import environment_file, environment_names, load_environment
from lifecycle.errors import AWS_ERRORS, LifecycleError, UsageError, refusal
from pipelines.check import check as check_environment
from pipelines.launch.patching import warnings_of
from pipelines.schedules import outdated

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
_CHECKOUT = Path(__file__).resolve().parent.parent


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 it worked, 1 what was run failed, 2 wrong usage or configuration, 130 interrupted (and cleaned up).",
)
@click.option("--root", type=click.Path(path_type=Path, exists=True, file_okay=False), default=_CHECKOUT, help="The checkout to work in.")
@click.pass_context
def shoal(context: click.Context, root: Path) -> None:
    """Distributed training on SageMaker as code: deploy, run, watch and tear down, on AWS or on this machine."""
    context.obj = Workspace(root.resolve(), dict(os.environ))


@shoal.command()
@click.argument("environment", metavar="[ENV]", default="dev")
@click.option("--strategy", metavar="NAME", help="Another way to distribute the training; `shoal strategies` lists them.")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), help="Where the report goes (demo-out).")
@click.option("--parameter", "-p", "parameters", multiple=True, metavar="KEY=VALUE", help="A pipeline parameter; may be repeated.")
@click.option("--enforce-iam", is_flag=True, help="Refuse what the policies of a caller's role do not allow, as AWS does.")
@click.option("--gitops", is_flag=True, help="Three releases from commit to prod in three accounts: canary, rollback, revert.")
@click.pass_obj
def demo(
    workspace: Workspace,
    environment: str,
    strategy: str | None,
    output: Path | None,
    parameters: tuple[str, ...],
    enforce_iam: bool,
    gitops: bool,
) -> None:
    """Run the whole of it on this machine: deploy ENV (dev), train on MNIST, evaluate, register, serve, and tear down."""
    if gitops:
        _demo_gitops(workspace, output, environment, strategy, parameters, enforce_iam=enforce_iam)
        return
    folder = (output or workspace.root / "demo-out").resolve()
    choice = Choice(environment, strategy, parse_parameters(parameters), enforce_iam)
    with open_view() as view, interrupted_once() as shield:
        outcome = run_demo(workspace, choice, folder, view, shield)
    print_result(Console(soft_wrap=True), summary_of_file(folder), folder)
    for failure in outcome.failures:
        click.echo(f"shoal demo: {failure.phase}: {message_of(failure)}", err=True)
    if outcome.failures:
        click.echo(f"all logs: {folder / 'logs'}", err=True)
        raise click.exceptions.Exit(INTERRUPTED if outcome.interrupted else FAILED)


def _demo_gitops(
    workspace: Workspace, output: Path | None, environment: str, strategy: str | None, parameters: tuple[str, ...], *, enforce_iam: bool
) -> None:
    if environment != "dev" or strategy or parameters:
        raise click.UsageError("--gitops goes from dev to staging to prod; it takes no ENV, --strategy or --parameter")
    folder = (output or workspace.root / "demo-out" / "gitops").resolve()
    with open_view() as view, interrupted_once() as shield:
        outcome = run_gitops(workspace, folder, view, shield, enforce_iam=enforce_iam)
    for failure in outcome.failures:
        click.echo(f"shoal demo: {failure.phase}: {message_of(failure)}", err=True)
    print_gitops_result(Console(soft_wrap=True), summary_of_file(folder), folder)
    if outcome.failures:
        raise click.exceptions.Exit(INTERRUPTED if outcome.interrupted else FAILED)


@shoal.command()
@click.pass_obj
def check(workspace: Workspace) -> None:
    """Validate every environment file."""
    names = environment_names(workspace.root)
    if not names:
        raise UsageError(f"there are no environment files in {workspace.root / 'environments'}")
    failed = [name for name in names if not _is_valid(workspace, name)]
    if failed:
        raise click.exceptions.Exit(USAGE)


def _is_valid(workspace: Workspace, name: str) -> bool:
    try:
        environment = load_environment(name, workspace.root)
        notices = check_environment(environment, root=workspace.root)
    except ConfigError as error:
        click.echo(str(error), err=True)
        return False
    training = environment.training
    click.echo(f"{environment_file(name)}: ok ({training.strategy} on {training.instance_count} x {training.instance_type})")
    for notice in notices:
        click.echo(f"{environment_file(name)}: notice: {notice}")
    today = datetime.datetime.now(tz=datetime.UTC).date()
    for warning in (*warnings_of(training, today, workspace.root), *outdated(environment, today)):
        click.echo(f"{environment_file(name)}: warning: {warning}")
    return True


for command in (local.local, verbs.synth, verbs.deploy, verbs.diff, verbs.data, verbs.run, verbs.status, verbs.stop, verbs.logs):
    shoal.add_command(command)
shoal.add_command(verbs.invoke_endpoint)
shoal.add_command(verbs.destroy)
shoal.add_command(image)
shoal.add_command(strategies)
shoal.add_command(show_plan)
shoal.add_command(dashboard)
shoal.add_command(doctor)
shoal.add_command(show_drift)
shoal.add_command(sweep)
for command in (approve, promote, release):
    shoal.add_command(command)
shoal.add_command(schedule)


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code. Users see one message, never a traceback."""
    try:
        with interrupted_once():
            return int(shoal.main(args=arguments, prog_name="shoal", standalone_mode=False) or OK)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("shoal: interrupted", err=True)
        return INTERRUPTED
    except (ConfigError, UsageError) as error:
        click.echo(f"shoal: {error}", err=True)
        return USAGE
    except LifecycleError as error:
        click.echo(f"shoal: {error}", err=True)
        return FAILED
    except AWS_ERRORS as error:
        click.echo(f"shoal: {refusal(error)}", err=True)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
