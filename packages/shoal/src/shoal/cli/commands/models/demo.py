"""`shoal demo`: options, and what is printed at the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from shoal.cli.exit_codes import FAILED, INTERRUPTED
from shoal.cli.interrupts import interrupted_once
from shoal.cli.view import open_view
from shoal.settings.loading.loader import load_environment
from shoal.settings.parsing.errors import one_line
from shoal.verbs.demo import LOGS, PAGE, Demo
from shoal.verbs.parameters import parse_parameters
from shoal.verbs.workspace import Workspace


@click.command()
@click.argument("environment", metavar="[ENV]", default="dev")
@click.argument("workload", metavar="[WORKLOAD]", required=False)
@click.option(
    "--strategy",
    metavar="NAME",
    help="Another way to distribute the training; `shoal plan ENV --strategies` lists them.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the report goes (demo-out).",
)
@click.option(
    "--parameter",
    "-p",
    "parameters",
    multiple=True,
    metavar="KEY=VALUE",
    help="A pipeline parameter; may be repeated.",
)
@click.option(
    "--enforce-iam",
    is_flag=True,
    help="Refuse what the policies of a caller's role do not allow, as AWS does.",
)
@click.pass_obj
def demo(
    workspace: Workspace,
    environment: str,
    workload: str | None,
    strategy: str | None,
    output: Path | None,
    parameters: tuple[str, ...],
    enforce_iam: bool,
) -> None:
    """Run all of it on this machine, from deploy to destroy.

    Deploy ENV (dev), upload its data, train, evaluate, register, serve, and tear down.
    """
    folder = (output or workspace.root / "demo-out").resolve()
    values = parse_parameters(parameters)
    settings = load_environment(environment, workspace.root, strategy, workload)
    with open_view() as view, interrupted_once() as shield:
        demo = Demo(workspace, settings, folder, view, strategy, values, enforce_iam)
        outcome = demo.run(shield)
    for name, text in _result(demo.run_record, demo.summary):
        click.echo(f"{name:12} {one_line(text)}")
    for failure in outcome.failures:
        click.echo(f"shoal demo: {failure.phase}: {failure.message}", err=True)
    click.echo(f"{'page':12} {folder / PAGE}" if (folder / PAGE).is_file() else "no run, no page")
    if outcome.failures:
        click.echo(f"all logs: {folder / LOGS}", err=True)
        raise click.exceptions.Exit(INTERRUPTED if outcome.interrupted else FAILED)


def _result(run: dict[str, Any] | None, summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is said of a run, and of what the demo made; name and text of each line."""
    lines = []
    if run is not None:
        values = run["metrics"]["values"] if run["metrics"] else {}
        lines += [("measured", f"{name} {value:.5g}") for name, value in values.items()]
        lines += [("gate", _gate_text(gate)) for gate in run["gates"]]
        if package := run["package"]:
            lines.append(("registered", f"{package['arn']} ({package['approval']})"))
        if answers := run["answers"]:
            passed = sum(each["passed"] for each in answers)
            lines.append(("endpoint", f"answered {passed} of {len(answers)} as expected"))
    kinds = Counter(each["kind"] for each in summary["created"])
    lines.append(("created", ", ".join(f"{count} {kind}" for kind, count in kinds.items())))
    left = summary["left_behind"]
    names = "not known" if left is None else ", ".join(f"{e['kind']} {e['name']}" for e in left)
    lines.append(("left behind", names or "nothing"))
    lines.append(("took", f"{summary['seconds']['total']:.1f} s"))
    return lines


def _gate_text(gate: dict[str, Any]) -> str:
    word = {True: "passed", False: "missed", None: "not measured"}[gate["passed"]]
    return f"{gate['metric']} {gate['limit']}: {word}"
