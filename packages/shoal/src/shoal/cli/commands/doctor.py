"""`shoal doctor`: find out what would fail in an environment before money is spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import click

from shoal.cli.answers import answers, tell
from shoal.cli.options import environment_argument, local_option
from shoal.pipelines.checks.check import check
from shoal.settings.loading.consumers import consumers_of
from shoal.settings.loading.loader import load_environment, load_workloads
from shoal.verbs.doctor.doctor import Doctor
from shoal.verbs.doctor.findings import Finding, State
from shoal.verbs.image import built_images
from shoal.verbs.workspace import Workspace

_MARKS = {
    State.OK: "ok      ",
    State.WARNING: "warning ",
    State.FAILED: "FAILED  ",
    State.UNKNOWN: "unknown ",
}


@dataclass(frozen=True)
class _Found(Finding):
    """A finding, and the workloads that it is about."""

    workloads: Sequence[str] = ()


@click.command()
@environment_argument
@local_option
@click.pass_obj
@answers(target=str, findings=list[_Found])
def doctor(workspace: Workspace, environment: str, workload: str | None, local: bool) -> None:
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
        built = built_images(view, target, workspace.root)
        consumers = consumers_of(view, workspace.root)
        for finding in Doctor(target, view, launch, built, consumers).findings():
            findings.setdefault(finding, []).append(view.workload)
    for finding, workloads in findings.items():
        line = _line(finding, workloads if len(workloads) < len(views) else ())
        tell(line, findings=[_Found(**asdict(finding), workloads=workloads)])
    counts = Counter(finding.state for finding in findings)
    tell(
        f"{views[0].title if workload else environment} at {target.description}:"
        f" {', '.join(f'{counts[state]} {state}' for state in State if counts[state])}",
        target=target.description,
    )
    if any(finding.state is State.FAILED for finding in findings):
        raise click.exceptions.Exit(1)


def _line(finding: Finding, workloads: Sequence[str]) -> str:
    whose = f"{', '.join(workloads)}: " if workloads else ""
    text = f"{_MARKS[finding.state]}{whose}{finding.question}: {finding.message}"
    return f"{text}; {finding.advice}" if finding.advice else text
