"""`shoal report`: what runs came to; `shoal schedule list|pause|resume`: the live schedules
of an environment, next to its file.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from shoal.cli.answers import Verdict, answers, columns, is_json, tell
from shoal.cli.options import excluding, flag, session_command
from shoal.errors import AWS_ERRORS, ShoalError, UsageError, refusal
from shoal.page import history
from shoal.page.page import keep, page
from shoal.page.record import record
from shoal.settings.loading.loader import environment_file
from shoal.settings.parsing.errors import one_line
from shoal.verbs.destroy.schedules import LiveSchedule, Schedules
from shoal.verbs.mlflow_export import connected
from shoal.verbs.workspace import Session


def print_runs(session: Session, title: str, limit: int, *, with_results: bool) -> None:
    """Print the newest runs; with results, what each took, measured and cost.

    A run that a schedule or a manifest started is named after it.
    """
    rows, older = history.rows(session.place, limit, with_results=with_results)
    tell(executions={title: rows})
    if not rows:
        option = " --score" if session.scores else ""
        none = f"pipeline {session.names.pipeline} has had no executions; start one with"
        tell(f"{none} `shoal run {session.arguments}{option}`")
        return
    heads, results = _table_of_results(rows) if with_results else ((), [()] * len(rows))
    table: list[tuple[str, ...]] = [("run", "status", "started", *heads, "name")]
    for row, cells in zip(rows, results, strict=True):
        started = f"{datetime.fromisoformat(row['started_at']).astimezone():%Y-%m-%d %H:%M:%S}"
        table.append((row["run"], row["status"], started, *cells, row["name"]))
    full = [column for column in zip(*table, strict=True) if any(column[1:])]
    tell("\n".join(columns(zip(*full, strict=True))))
    if older:
        tell(f"and {older} older ones: --limit {limit + older}")
    if with_results and session.target.is_local and not session.scores:
        tell("costs are list prices for the seconds that this machine took")


def _table_of_results(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and cells. Of the parameters only those that differ among these runs are shown;
    `--json` has them all.
    """
    metrics = list(dict.fromkeys(name for row in rows for name in row["metrics"]))
    parameters = history.differing_parameters(rows)
    heads = ("took", *metrics, "gate", "version", "commit", "cost", *parameters)
    cells = [
        (
            f"{row['seconds']:,.0f} s",
            *(_number(row["metrics"].get(name)) for name in metrics),
            history.gate_of(row),
            _number(row["version"]),
            (row["commit"] or "")[:12],
            "unknown" if row["usd"] is None else f"${row['usd']:,.4f}",
            *(history.end_of(row["parameters"].get(name, "")) for name in parameters),
        )
        for row in rows
    ]
    return heads, cells


def keep_page(session: Session, arn: str) -> None:
    """Keep the page of a run that has ended; where that fails, say so and go on."""
    try:
        shown = history.with_others(session.place, arn)
        tell(verdict=shown["verdict"])
        page = keep(session.place, shown, session.workspace.root)
        tell(f"page: {page}", page=page)
    except Exception as error:  # noqa: BLE001 (the outcome is the run's, whatever its log holds)
        is_known = isinstance(error, (ShoalError, *AWS_ERRORS))
        reason = refusal(error) if is_known else one_line(f"{type(error).__name__}: {error}")
        click.echo(f"the page of the run is not kept: {reason}", err=True)


@click.command()
@excluding("--mlflow", "--output --keep")
@session_command
@click.argument("run")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    show_default="run.html, with --json none",
    metavar="FILE",
    help="Where the page goes; a name that ends in .json gets the data without the page.",
)
@flag("--keep", "is_kept", help="Put it into the artifact bucket, too.")
@click.option(
    "--mlflow",
    "uri",
    metavar="URI",
    help="Write RUN, or `all`, to MLflow instead: a server's address, or an ARN of SageMaker's.",
)
@answers(
    run=str | None,
    verdict=Verdict | None,
    file=str | None,
    kept=str | None,
    exported=dict[str, str],
)
def report(session: Session, run: str, output: Path | None, is_kept: bool, uri: str | None) -> None:
    """Write the page of RUN (an ARN, an id, or `latest`).

    It is one file that needs no network.
    """
    if output and not output.parent.is_dir():
        raise UsageError(f"there is no folder {output.parent} to write {output.name} into")
    if uri:
        executions = reversed(session.pipeline.executions()) if run == "all" else ()
        arns = [str(each["PipelineExecutionArn"]) for each in executions]
        with connected(session, uri) as mlflow:
            for arn in arns if run == "all" else [session.pipeline.find(run)]:
                name, place = arn.rpartition("/")[2], mlflow.export(session, arn)
                tell(f"run {name}: {place}", exported={name: place})
        return
    session, arn = session.find(run)
    file = output if output or is_json() else Path("run.html")
    is_page = file is not None and file.suffix != ".json"
    shown = (history.with_others if is_page or is_kept else record)(session.place, arn)
    if file:
        text = page(shown, session.workspace.root) if is_page else history.json_of(shown)
        file.write_text(text, encoding="utf-8")
    run, verdict = shown["run"]["id"], shown["verdict"]
    tell(f"{file}: run {run}, {verdict['outcome']}", run=run, verdict=verdict, file=file)
    if is_kept:
        kept = keep(session.place, shown, session.workspace.root)
        tell(f"kept: {kept}", kept=kept)


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


_name = click.argument("name")
_answers = answers(schedules=list[LiveSchedule])


@click.group()
def schedule() -> None:
    """When the pipeline of an environment starts by itself."""


@schedule.command("list")
@session_command
@_answers
def show(session: Session) -> None:
    """Show the deployed schedules of ENV, and where they differ from its file."""
    schedules = [schedule for each in _all(session) for schedule in each.all()]
    if not schedules:
        tell(
            "no schedules are deployed; write some in"
            f" {environment_file(session.environment.name)}, section `schedules`, and deploy"
        )
        return
    rows = [("schedule", "pipeline", "expression", "time zone", "live", "file")]
    for each in schedules:
        states = (_state(each.paused), _state(each.paused_in_file))
        rows.append((each.name, each.pipeline, each.expression, each.time_zone, *states))
    tell("\n".join(columns(rows)), schedules=schedules)
    for each in schedules:
        _warn(session, each)
        if each.is_silent:
            tell(
                f"{each.name}: it is active, and its alarm tells nobody; run `shoal schedule resume"
                f" {session.arguments} {each.name}`"
            )


@schedule.command()
@session_command
@_name
@_answers
def pause(session: Session, name: str) -> None:
    """Let the schedule NAME of ENV start nothing until it is resumed. What runs goes on."""
    _change(session, name, paused=True)


@schedule.command()
@session_command
@_name
@_answers
def resume(session: Session, name: str) -> None:
    """Let the schedule NAME of ENV start executions again, from its next time on."""
    _change(session, name, paused=False)


def _all(session: Session) -> list[Schedules]:
    """Return the schedules of each pipeline of the workload."""
    return [Schedules(each.target, each.names) for each in session.pipelines]


def _change(session: Session, name: str, *, paused: bool) -> None:
    first, *others = _all(session)
    owner = next((each for each in others if name in each.deployed()), first)
    schedule = owner.set_paused(name, paused)
    tell(f"schedule {name}: {_state(schedule.paused)}", schedules=[schedule])
    _warn(session, schedule)


def _warn(session: Session, schedule: LiveSchedule) -> None:
    """Say where a live schedule differs from the file.

    CloudFormation compares templates, so neither `shoal diff` nor a deployment sees what changed
    outside it.
    """
    in_file = schedule.paused_in_file
    if schedule.differs:
        says = "has no such schedule" if in_file is None else f"says `paused: {in_file}`".lower()
        tell(
            f"{schedule.name}: live it is {_state(schedule.paused)}, and"
            f" {environment_file(session.environment.name)} {says}; a deployment leaves it so until"
            " its lines there change"
        )


def _state(paused: bool | None) -> str:
    return {True: "paused", False: "active", None: "-"}[paused]
