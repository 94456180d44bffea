"""`shoal schedule list|pause|resume`: the live schedules of an environment, next to its file."""

from __future__ import annotations

import click

from shoal.cli.answers import answers, columns, tell
from shoal.cli.options import session_command
from shoal.settings.loading.loader import environment_file
from shoal.verbs.destroy.schedules import LiveSchedule, Schedules
from shoal.verbs.workspace import Session

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
    _warn(session, [each for each in schedules if each.differs])
    for each in schedules:
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
    _change(session, name, True)


@schedule.command()
@session_command
@_name
@_answers
def resume(session: Session, name: str) -> None:
    """Let the schedule NAME of ENV start executions again, from its next time on."""
    _change(session, name, False)


def _all(session: Session) -> list[Schedules]:
    """Return the schedules of each pipeline of the workload."""
    return [Schedules(each.target, each.names) for each in session.pipelines]


def _change(session: Session, name: str, paused: bool) -> None:
    first, *others = _all(session)
    owner = next((each for each in others if name in each.deployed()), first)
    schedule = owner.set_paused(name, paused)
    tell(f"schedule {name}: {_state(schedule.paused)}", schedules=[schedule])
    _warn(session, [schedule] if schedule.differs else [])


def _warn(session: Session, differing: list[LiveSchedule]) -> None:
    """Say where live schedules differ from the file.

    CloudFormation compares templates, so neither `shoal diff` nor a deployment sees what changed
    outside it.
    """
    for each in differing:
        file = environment_file(session.environment.name)
        says = (
            f"says `paused: {'true' if each.paused_in_file else 'false'}`"
            if each.paused_in_file is not None
            else "has no such schedule"
        )
        tell(
            f"{each.name}: live it is {_state(each.paused)}, and {file} {says}; a deployment leaves"
            " it so until its lines there change"
        )


def _state(paused: bool | None) -> str:
    return {True: "paused", False: "active", None: "-"}[paused]
