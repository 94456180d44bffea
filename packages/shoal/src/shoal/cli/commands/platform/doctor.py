"""`shoal doctor`: find out what would fail in an environment before money is spent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from shoal.cli.options import environment_argument, local_option
from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load_environment, load_workloads
from shoal.verbs.doctor.doctor import Doctor, Needs
from shoal.verbs.doctor.findings import Finding, State
from shoal.verbs.doctor.image import built_images
from shoal.verbs.workspace import Workspace

_MARKS = {
    State.OK: "ok      ",
    State.WARNING: "warning ",
    State.FAILED: "FAILED  ",
    State.UNKNOWN: "unknown ",
}


@click.command()
@environment_argument
@local_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of lines.")
@click.pass_obj
def doctor(
    workspace: Workspace, environment: str, workload: str | None, local: bool, as_json: bool
) -> None:
    """Ask AWS what decides whether ENV can be deployed and train.

    Changes nothing; exit code 1 if something would fail.
    """
    if workload is None:
        views = load_workloads(environment, workspace.root)
    else:
        views = (load_environment(environment, workspace.root, workload=workload),)
    launches = [check(view, root=workspace.root).launch for view in views]
    target = workspace.target_of(views[0], local)
    findings: dict[Finding, list[str]] = {}
    for view, launch in zip(views, launches, strict=True):
        needs = Needs.of(view, launch, built_images(view, target, workspace.root))
        for finding in Doctor(target, view, needs).findings():
            findings.setdefault(finding, []).append(view.workload)
    if as_json:
        click.echo(json.dumps([*_data(findings, len(views))], indent=2))
    else:
        for finding, workloads in findings.items():
            click.echo(_line(finding, workloads if len(workloads) < len(views) else ()))
        counts = Counter(finding.state for finding in findings)
        click.echo(
            f"{views[0].title if workload else environment} at {target.description}:"
            f" {', '.join(f'{counts[state]} {state}' for state in State if counts[state])}"
        )
    if any(finding.state is State.FAILED for finding in findings):
        raise click.exceptions.Exit(1)


def _data(findings: Mapping[Finding, Sequence[str]], count: int) -> Iterator[dict[str, Any]]:
    """Yield each finding, with the workloads that it is about where the environment has several."""
    for finding, workloads in findings.items():
        yield asdict(finding) | ({"workloads": [*workloads]} if count > 1 else {})


def _line(finding: Finding, workloads: Sequence[str]) -> str:
    whose = f"{', '.join(workloads)}: " if workloads else ""
    text = f"{_MARKS[finding.state]}{whose}{finding.question}: {finding.message}"
    return f"{text}; {finding.advice}" if finding.advice else text
