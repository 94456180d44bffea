"""`shoal demo`: options, and what is printed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from shoal.cli.answers import Verdict, answers, exit_as, tell
from shoal.cli.endings import ENDS, interrupted_once
from shoal.cli.options import enforce_iam_option, parameter_option, strategy_option
from shoal.cli.view import open_view
from shoal.settings.loading.loader import load_environment
from shoal.settings.parsing.errors import one_line
from shoal.verbs.demo import LOGS, PAGE, Demo
from shoal.verbs.parameters import parse_parameters
from shoal.verbs.workspace import Workspace


@click.command()
@click.argument("environment", metavar="[ENV]", default="dev")
@click.argument("workload", metavar="[WORKLOAD]", required=False)
@strategy_option
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the report goes (demo-out).",
)
@parameter_option
@enforce_iam_option
@click.pass_obj
@answers(
    output=str,
    summary=dict[str, Any],
    verdict=Verdict | None,
    gates=list[dict[str, Any]],
    failures=list[dict[str, str]],
)
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
    with open_view() as view, interrupted_once(ENDS) as shield:
        demo = Demo(workspace, settings, folder, view, strategy, values, enforce_iam)
        outcome = demo.run(shield)
    page = folder / PAGE
    # of an interrupted one, it was read before all was deleted
    recorded = None if outcome.interrupted else demo.run_record
    for name, text in result_of(recorded, demo.summary, page if page.is_file() else None):
        tell(f"{name:12} {one_line(text)}")
    run = recorded or {"verdict": None, "gates": []}
    tell(output=folder, summary=demo.summary, verdict=run["verdict"], gates=run["gates"])
    if outcome.failures:
        click.echo(f"all logs: {folder / LOGS}", err=True)
    exit_as(outcome)


def result_of(
    run: dict[str, Any] | None, summary: dict[str, Any], page: Path | None
) -> Iterator[tuple[str, str]]:
    """Yield name and text of each line: what was made and is gone first, what decides last."""
    yield "took", f"{summary['seconds']['total']:.1f} s"
    yield "created", _made_text(summary)
    yield "page", str(page) if page else "none, because nothing ran"
    if run is None:
        return
    for command in run["verdict"]["next"].split("\n"):
        yield "next", command
    if package := run["package"]:
        yield "registered", f"{package['arn']} ({package['approval']})"
    if answers := run["answers"]:
        passed = sum(each["passed"] for each in answers)
        yield "endpoint", f"answered {passed} of {len(answers)} as expected"
    gates, values = run["gates"], run["metrics"]["values"] if run["metrics"] else {}
    for name, value in values.items():
        if name not in {gate["metric"] for gate in gates}:
            yield "measured", f"{name} {value:.5g}"
    yield "result", f"{run['run']['workload']} {run['run']['status'].lower()}"
    for gate in gates:
        yield "gate", _gate_text(gate)


def _made_text(summary: dict[str, Any]) -> str:
    created, left = summary["created"], summary["left_behind"]
    made = f"{len(created)} resources of {len({each['kind'] for each in created})} kinds"
    if left is None:
        return f"{made}; what is left is not known"
    names = ", ".join(f"{each['kind']} {each['name']}" for each in left)
    return f"{made}, left {len(left)}{': ' if left else ''}{names}"


def _gate_text(gate: dict[str, Any]) -> str:
    word = {True: "passed", False: "missed", None: "not measured"}[gate["passed"]]
    value = "" if gate["value"] is None else f" {gate['value']:.5g}"
    return f"{gate['metric']}{value}, {gate['limit']}: {word}"
