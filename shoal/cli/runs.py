"""`shoal runs | compare | report | export | ui | watch`: what runs came to."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from config.errors import one_line
from shoal.cli.options import session_command, whole_command
from shoal.verbs.runs import history
from shoal.verbs.runs.kept import keep
from shoal.verbs.runs.mlflow_client import connected
from shoal.verbs.runs.page import page
from shoal.verbs.runs.server import Pages
from shoal.verbs.workspace import Session

_MAX_WIDTH = 500


@click.command()
@session_command
@click.option("--limit", default=20, show_default=True, metavar="N", help="How many, newest first.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def runs(session: Session, limit: int, as_json: bool) -> None:
    """List the runs of ENV's pipeline: what each measured, took and cost.

    Of the parameters only those that differ among these runs are shown; `--json` has them all.
    """
    rows = [history.row_of(each) for each in history.runs(session.place, limit)]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        click.echo(f"no runs yet; start one with `shoal run {session.arguments}`")
        return
    metrics = list(dict.fromkeys(name for row in rows for name in row["metrics"]))
    parameters = history.differing_parameters(rows)
    heads = ("run", "status", "started", "took", *metrics, "gate")
    table = Table(*heads, "version", "commit", "cost", *map(escape, parameters), box=None)
    for row in rows:
        values = (_number(row["metrics"].get(name)) for name in metrics)
        table.add_row(
            row["run"],
            row["status"],
            datetime.fromisoformat(row["started_at"]).astimezone().strftime("%Y-%m-%d %H:%M"),
            f"{row['seconds']:,.0f} s",
            *values,
            history.gate_of(row),
            _number(row["version"]),
            history.short(row["commit"]),
            "unknown" if row["usd"] is None else f"${row['usd']:,.4f}",
            *(escape(one_line(of_runs[row["run"]])) for of_runs in parameters.values()),
        )
    _print(table)
    if session.target.is_local:
        click.echo("costs are list prices for the seconds that this machine took")


@click.command()
@session_command
@click.argument("one")
@click.argument("other")
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
def compare(session: Session, one: str, other: str, as_json: bool) -> None:
    """Show what differs between the runs ONE and OTHER (ARNs, ids, or `latest`)."""
    both = [history.brief(session.place, session.pipeline.find(each)) for each in (one, other)]
    found = list(history.differences(*both))
    names = [each["run"]["id"] for each in both]
    if as_json:
        click.echo(
            json.dumps(
                {name: dict(zip(names, values, strict=True)) for name, *values in found}, indent=2
            )
        )
        return
    if not found:
        click.echo(f"runs {names[0]} and {names[1]} do not differ")
        return
    table = Table("", *names, box=None)
    for name, *values in found:
        table.add_row(*(escape(one_line(each)) for each in (name, *map(_number, values))))
    _print(table)


@click.command()
@session_command
@click.argument("run")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("run.html"),
    show_default=True,
    metavar="FILE",
    help="Where the page goes; a name that ends in .json gets the data without the page.",
)
@click.option("--keep", "is_kept", is_flag=True, help="Put it into the artifact bucket, too.")
def report(session: Session, run: str, output: Path, is_kept: bool) -> None:
    """Write the page of RUN (an ARN, an id, or `latest`): one file that needs no network."""
    arn = session.pipeline.find(run)
    is_page = output.suffix != ".json"
    record = (history.with_others if is_page or is_kept else history.whole)(session.place, arn)
    text = page(record, session.workspace.root) if is_page else history.json_of(record)
    output.write_text(text, encoding="utf-8")
    click.echo(f"{output}: run {record['run']['id']}, {record['run']['status']}")
    if is_kept:
        click.echo(f"kept: {keep(session.place, record, session.workspace.root)}")


@click.command()
@session_command
@click.argument("run", default="latest")
@click.option(
    "--mlflow",
    "uri",
    required=True,
    metavar="URI",
    help="MLflow's tracking server: its address, or the ARN of one that SageMaker runs.",
)
def export(session: Session, run: str, uri: str) -> None:
    """Write RUN (an ARN, an id, `latest`, or `all`) to MLflow; again, it is brought up to date."""
    arns = (
        [str(each["PipelineExecutionArn"]) for each in session.pipeline.executions()][::-1]
        if run == "all"
        else [session.pipeline.find(run)]
    )
    with connected(session, uri) as mlflow:
        for arn in arns:
            click.echo(f"run {arn.rpartition('/')[2]}: {mlflow.export(session, arn)}")


@click.command()
@whole_command
@click.option(
    "--port", default=0, metavar="N", help="A port of this machine; by default a free one."
)
def ui(session: Session, port: int) -> None:
    """Serve the pages of ENV's runs on this machine, live, until Ctrl-C."""
    with Pages(session, port) as pages:
        click.echo(f"the runs of {session.title}: {pages.address}")
        click.echo("only who has this address gets an answer; Ctrl-C ends it")
        pages.serve_forever()


@click.command()
@session_command
@click.argument("run", default="latest")
def watch(session: Session, run: str) -> None:
    """Serve the page of RUN (an ARN, an id, or `latest`) on this machine, live, until Ctrl-C."""
    found = session.pipeline.find(run).rpartition("/")[2]
    with Pages(session) as pages:
        click.echo(f"run {found}: {pages.address_of(session.environment.workload, found)}")
        click.echo("only who has this address gets an answer; Ctrl-C ends it")
        pages.serve_forever()


def _print(table: Table) -> None:
    """Print a table whole: a narrow terminal wraps its lines, and no value is cut."""
    console = Console()
    whole = console.measure(table, options=console.options.update(width=_MAX_WIDTH)).maximum
    Console(width=max(console.width, whole)).print(table, soft_wrap=True)


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)
