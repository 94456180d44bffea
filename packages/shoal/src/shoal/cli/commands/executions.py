"""`shoal run | status | stop | logs`: executions of an environment's pipeline."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from shoal.aws import serving
from shoal.aws.events import Planned
from shoal.aws.execution import Execution
from shoal.aws.logs import LogTail, location_of
from shoal.aws.registry import APPROVED
from shoal.aws.target import Target
from shoal.cli.answers import Verdict, answers, columns, is_json, tell
from shoal.cli.commands.runs import keep_page, print_runs
from shoal.cli.options import (
    Selection,
    excluding,
    flag,
    parameter_option,
    score_option,
    selection_command,
    session_command,
)
from shoal.cli.view import open_view
from shoal.errors import AWS_ERRORS, NotFoundError, UsageError, refusal
from shoal.page.look import Look
from shoal.page.record import checkpoint_of, record
from shoal.page.resources import got, instances_of
from shoal.page.results import gates_of, package_of
from shoal.page.step_log import rank_of
from shoal.settings.loading.loader import load_environment
from shoal.settings.parsing.errors import one_line
from shoal.verbs import inference as scoring
from shoal.verbs.dataset import require_uploaded
from shoal.verbs.doctor.capacity_check import refuse_short
from shoal.verbs.follow import Follower
from shoal.verbs.inference import Scored
from shoal.verbs.parameters import check_declared, check_values, parse_parameters
from shoal.verbs.workspace import Session

_follow_option = flag(
    "--follow", help="Stay until the execution has ended. Ctrl-C leaves it running."
)


@click.command()
@selection_command
@parameter_option
@score_option
@_follow_option
@answers(
    execution=str,
    status=str | None,
    verdict=Verdict | None,
    gates=list[str],
    model_package=str | None,
    page=str | None,
    next=list[str],
    scored=Scored | None,
)
def run(selection: Selection, parameters: tuple[str, ...], score: bool, follow: bool) -> None:
    """Start an execution of ENV's pipeline."""
    values = parse_parameters(parameters)
    if score:
        session, arn = scoring.start(selection.open(), values)
    else:
        session = _trainable(selection, values)
        arn = session.pipeline.start(values)
    tell(f"started: {arn}", execution=arn)
    if follow:
        follower, execution = _follow(session, arn)
        tell(status=execution.status)
        _require_success(session, follower, execution)
        _print_result(session, execution)


def _trainable(selection: Selection, values: Mapping[str, str]) -> Session:
    """Return the session, once what would fail an execution with these parameters is refused."""
    root = selection.workspace.root
    settings = load_environment(selection.environment, root, workload=selection.workload)
    check_values(settings, values, root)
    try:
        session = selection.open()
        session.pipeline.definition()
    except NotFoundError:  # what is deployed decides; where nothing is, what would be
        check_declared(settings, values, root)
        raise
    if notice := require_uploaded(session, values):
        click.echo(notice, err=True)
    waiting = (settings.training.capacity, settings.evaluation.capacity)
    if any(each.retry_for_s for each in waiting):
        refuse_short(session.target, settings)
    return session


@click.command(epilog="--score and --follow take `latest` where EXECUTION is left out.")
@excluding("EXECUTION --score --follow", "--limit --results")
@selection_command
@click.argument("execution", required=False)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many, newest first.",
)
@flag("--results", help="With what each took, measured and cost.")
@score_option
@_follow_option
@answers(
    or_run=True,
    executions=dict[str, list[dict[str, Any]]],
    serving=dict[str, str],
    scored=Scored | None,
    page=str | None,
)
def status(
    selection: Selection,
    execution: str | None,
    limit: int,
    results: bool,
    score: bool,
    follow: bool,
) -> None:
    """Show the executions of ENV, or the steps of one.

    --results also has the parameters that differ, and asks AWS some thirty times per execution.
    EXECUTION is an ARN, an id, or `latest`; its document is run.json without logs. Exit code 2
    where a pipeline is not deployed; those of other workloads are shown.
    """
    if execution or score or follow:
        session = selection.open()
        session = scoring.scoring_of(session) if score else session
        _print_steps(*session.find(execution or "latest"), follow=follow)
        return
    whole = selection.open_whole()
    if len(whole.each) == 1:
        _print_executions(whole.each[0], limit, results=results)
        return
    missing = []
    for each in whole.each:
        tell(f"{each.title}:")
        try:
            _print_executions(each, limit, results=results)
        except NotFoundError as error:  # the others may be deployed
            tell(str(error))
            missing.append(each.title)
    if missing:
        raise NotFoundError(
            f"not deployed: {', '.join(missing)}; `shoal deploy {whole.arguments}` deploys it"
        )


def _print_steps(session: Session, arn: str, *, follow: bool) -> None:
    """Print an execution's steps, or each as it goes on, and what came of it."""
    follower, state = _follow(session, arn) if follow else (None, session.pipeline.look(arn))
    if is_json():
        tell(**record(session.place, arn, with_logs=False))
    if follower:
        _require_success(session, follower, state)
    elif not is_json():
        tell("\n".join(lines_of(state)))
        _print_trainings(session, state)
    if is_json():
        _print_scored(session, state)
    else:
        _print_result(session, state)


def _print_trainings(session: Session, execution: Execution) -> None:
    """Print what each training got and waited for, what it would resume from, and how to get in."""
    look = Look(session.place, execution, {}, {}, datetime.now(UTC))
    for step, job in look.trainings():
        tell(one_line(f"{step.name}: {got(look, step, job)}"))
        if kept := checkpoint_of(look, job):
            tell(f"newest checkpoint in S3: {kept['file']}, {kept['seconds']:.0f} s old")
        if shell := shell_in(job, session.target):
            tell(f"a shell in it: {shell}")


def shell_in(job: Mapping[str, Any], target: Target) -> str | None:
    """Return the command that opens a shell in a running training's first host; None where AWS lets
    nobody in: without capacity.remote_debug, and before it is at Training.

    Source: developer guide, "Access a training container through AWS Systems Manager (SSM)".
    shoal-local has none: its jobs are processes here.
    """
    is_open = job.get("RemoteDebugConfig", {}).get("EnableRemoteDebug")
    if target.is_local or not is_open or job["SecondaryStatus"] != "Training":
        return None
    _, count = instances_of(job["ResourceConfig"])
    others = f" ({count} hosts, to _algo-{count})" if (count or 1) > 1 else ""
    return (
        f"aws ssm start-session --region {target.region}"
        f" --target sagemaker-training-job:{job['name']}_algo-1{others}"
    )


def _print_executions(session: Session, limit: int, *, results: bool) -> None:
    if endpoint := serving.live_endpoint(session.target, session.names.serving_endpoint):
        failure = endpoint.failure and f"; why a deployment of it failed: {endpoint.failure}"
        told = one_line(f"{endpoint}{failure}")
        tell(f"serving: {told}", serving={session.title: told})
    print_runs(session, session.title, limit, with_results=results)
    for each in session.pipelines[1:]:
        tell("scoring:")
        print_runs(each, f"{session.title} scoring", limit, with_results=results)


@click.command()
@session_command
@click.argument("execution")
@answers(execution=str)
def stop(session: Session, execution: str) -> None:
    """Ask EXECUTION (an ARN, an id, or `latest`) to stop."""
    session, arn = session.find(execution)
    state = session.pipeline.look(arn)
    if state.has_ended:
        raise UsageError(
            f"execution {state.id} has ended already as {state.status}: there is nothing to stop"
        )
    session.pipeline.stop(arn)
    tell(f"stopping: {arn}", execution=arn)


@dataclass(frozen=True)
class _Line:
    at: str
    host: str
    rank: int | None
    text: str


@click.command()
@session_command
@click.argument("execution")
@click.argument("step")
@click.option("--tail", type=click.IntRange(1), metavar="N", help="Only the last N lines so far.")
@flag("--follow", help="Stay until the step has ended.")
@click.option("--host", metavar="HOST", help="Only the lines of one host, such as algo-2.")
@click.option(
    "--rank",
    type=click.IntRange(0),
    metavar="N",
    help="Only lines that a launcher marks as rank N's.",
)
@answers(execution=str, step=str, lines=list[_Line])
def logs(
    session: Session,
    execution: str,
    step: str,
    tail: int | None,
    follow: bool,
    host: str | None,
    rank: int | None,
) -> None:
    """Print what STEP of EXECUTION has logged.

    EXECUTION is an ARN, an id, or `latest`.
    """
    session, arn = session.find(execution)
    state = session.pipeline.look(arn)
    match = state.step(step)
    if match is None:
        started = ", ".join(each.name for each in state.steps) or "none"
        raise NotFoundError(
            f"execution {state.id} has not started a step {step!r}; started so far: {started}"
        )
    location = location_of(session.target, match)
    if location is None:
        raise NotFoundError(f"step {step} ({match.type}) runs no code that could log")
    log = LogTail(session.target.client("logs"), location)
    ranks: set[int | None] = set()
    tell(execution=arn, step=step)

    def wanted() -> Iterator[_Line]:
        for each in log.read():
            line = _Line(each.at.isoformat(), each.host, rank_of(each.text), each.text)
            ranks.add(line.rank)
            if host in (None, line.host) and rank in (None, line.rank):
                yield line

    for line in deque(wanted(), tail) if tail else wanted():
        tell(line.text, lines=[line])
    while follow and not match.has_ended:
        time.sleep(session.poll_s)
        match = session.pipeline.look(arn).step(step) or match
        location = location_of(session.target, match) or location
        if location.stream_prefix != log.location.stream_prefix:  # another attempt has another job
            log = LogTail(session.target.client("logs"), location)
        for line in wanted():
            tell(line.text, lines=[line])
    if rank is not None and ranks == {None}:
        click.echo(
            "no line of this log names a rank; without --rank all lines are printed", err=True
        )


def _follow(session: Session, arn: str) -> tuple[Follower, Execution]:
    """Print how an execution goes on, until it has ended."""
    pipeline = session.pipeline
    try:
        with open_view() as view:
            view(Planned(pipeline.planned_steps()))
            command = f"shoal logs {session.arguments}"
            metrics = session.environment.training.metrics
            follower = Follower(
                pipeline, arn, view, session.poll_s, logs_command=command, metrics=metrics
            )
            return follower, follower.follow()
    except (KeyboardInterrupt, *AWS_ERRORS):
        arguments = f"{session.arguments} {arn.rpartition('/')[2]}"
        click.echo(
            f"it goes on: `shoal status {arguments}`; to end it: `shoal stop {arguments}`", err=True
        )
        raise


def _require_success(session: Session, follower: Follower, execution: Execution) -> None:
    """Keep the page of an execution that has ended; raise ExecutionError if it failed."""
    keep_page(session, execution.arn)
    follower.raise_unless_succeeded(execution)
    tell(f"execution {execution.id} succeeded")


def _print_result(session: Session, execution: Execution) -> None:
    """Print what was measured and registered, and what to do next."""
    for gate in gates_of(session.target, execution):
        tell(one_line(f"gate: {gate}"), gates=[one_line(str(gate))])
    commands = [f"shoal report {session.arguments} {execution.id} -o run.html"]
    _print_scored(session, execution)
    try:
        package = package_of(session.target, execution)
    except (NotFoundError, *AWS_ERRORS) as error:  # deleted, or not to be read by these credentials
        tell(f"model package: {refusal(error)}")
        package = None
    if package:
        line = f"model package version {package.version} is {package.approval}"
        tell(line, model_package=package.arn)
        if package.approval != APPROVED:
            commands.insert(0, f"shoal release approve {session.arguments} {package.version}")
    tell("\n  ".join(("next:", *commands)), next=commands)


def _print_scored(session: Session, execution: Execution) -> None:
    """Print what an execution that scored has left, or which one left the newest scores."""
    if not session.scores:
        return
    if execution.status != "Succeeded":
        if newest := next(session.pipeline.succeeded(), None):
            run = newest["PipelineExecutionArn"].rpartition("/")[2]
            tell(f"the newest scores: `shoal status {session.arguments} {run}`")
        return
    try:
        scored = scoring.results(session, execution)
    except (NotFoundError, *AWS_ERRORS) as error:
        tell(f"scores: {refusal(error)}")
        return
    tell("\n".join(map(one_line, scored.lines)), scored=scored)


def lines_of(execution: Execution) -> Iterator[str]:
    """Yield the execution and its steps, with the reasons of failures as text: jobs write them."""
    reason = one_line(execution.failure_reason)
    yield f"execution {execution.id}: {execution.status}{': ' if reason else ''}{reason}"
    rows = [("step", "type", "status", "seconds")]
    for step in execution.steps:
        seconds = step.seconds()
        text = "" if seconds is None else f"{seconds:.1f}"
        rows.append((step.name, step.type, step.status, text))
    yield from columns(rows)
    # Not in the table: a column would cut a long one before the cause.
    for step in execution.steps:
        if step.failure_reason:
            yield f"{step.name}: {one_line(step.failure_reason)}"
