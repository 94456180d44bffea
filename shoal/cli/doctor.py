"""`shoal doctor`: find out what would fail in an environment before money is spent."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace

import click

from config.loader import load_environment
from config.settings import Environment
from pipelines import capacity
from pipelines.check import check
from pipelines.launch import Launch
from shoal.cli.options import environment_argument, local_option
from shoal.verbs.doctor import Doctor, Finding, Needs, State
from shoal.verbs.image import built_image
from shoal.verbs.network_check import Demand
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
def doctor(workspace: Workspace, environment: str, local: bool, as_json: bool) -> None:
    """Ask AWS what decides whether ENV can be deployed and can train.

    Changes nothing; exit code 1 if something would fail.
    """
    settings = load_environment(environment, workspace.root)
    launch = check(settings, root=workspace.root).launch
    target = workspace.target_of(settings, local)
    needs = replace(needs_of(settings, launch), built=built_image(settings, target, workspace.root))
    findings = list(Doctor(target, settings, needs).findings())
    if as_json:
        click.echo(json.dumps([asdict(each) for each in findings], indent=2))
    else:
        for finding in findings:
            click.echo(_line(finding))
        counts = Counter(finding.state for finding in findings)
        click.echo(
            f"{environment} at {target.description}:"
            f" {', '.join(f'{counts[state]} {state}' for state in State if counts[state])}"
        )
    if any(finding.state is State.FAILED for finding in findings):
        raise click.exceptions.Exit(1)


def needs_of(environment: Environment, launch: Launch) -> Needs:
    """Return what the launch contract and the capacity rules need for `environment`."""
    endpoint = environment.endpoint
    images = {"evaluation": environment.evaluation.image_uri or launch.evaluation_image_uri}
    if endpoint:
        images["endpoint"] = launch.inference_image_uri
    if environment.training.build_image is None:
        images = {"training": launch.image_uri, **images}
    addresses = Demand(
        training=capacity.addresses(environment).min,
        hosting=2 * endpoint.instance_count if endpoint else 0,
    )
    return Needs({} if environment.pipeline else images, addresses)


def _line(finding: Finding) -> str:
    text = f"{_MARKS[finding.state]}{finding.question}: {finding.says}"
    return f"{text}; {finding.advice}" if finding.advice else text
