"""Where runs are read, and one look at an execution: AWS's answers, and notes of what failed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from botocore import xform_name

from shoal.aws.execution import (
    JOBS,
    NOT_STARTED,
    Execution,
    Pipeline,
    Step,
    definition_of,
    given_parameters,
    job_name,
    walk,
)
from shoal.aws.target import Target
from shoal.errors import AWS_ERRORS, ShoalError, refusal

if TYPE_CHECKING:  # they need packages that the function does not have
    from shoal.costs.prices import Price
    from shoal.settings.sections.evaluation import Metric


@dataclass(frozen=True)
class Place:
    """A pipeline, what its log lines mean, and where pages of its runs lie.

    `Session.place` knows it in a checkout; the function that keeps pages has no environment's file,
    and reads it from one of its own (packages/shoal/src/shoal/functions/pages).
    """

    target: Target
    pipeline: Pipeline
    is_local: bool
    """Whether shoal-local plays AWS there."""
    environment: str
    workload: str
    strategy: str
    """How the pipeline that is deployed now distributes its training."""
    arguments: str
    """The words that name it in a command, as in `dev prices --local`."""
    model_package_group: str
    metrics: Mapping[str, Metric]
    cleaners: Mapping[str, str]
    """The functions that clean up outside the graph, by what they are for: teardown, sweep."""
    bucket: str
    folder: str
    """The folder in the bucket in which each run has one with its page."""
    price_of: Callable[[str], Price | None]
    """The list price of an instance type in the pipeline's region."""
    commit_of: Callable[[str], str | None]
    """The commit that has the files of the code archive with this URI: "" if none has, None if it
    was not looked for.
    """
    cost_tags: Mapping[str, str] = field(default_factory=dict)
    """The tags under which the bill has what a run has cost, as far as the settings say."""
    requests: Path | None = None
    """The log of requests of this checkout's shoal-local, which need not be the one that plays."""


REFERENCE = re.compile(r'"Steps\.([A-Za-z0-9_-]+)[."]')
Answer = TypeVar("Answer")
Other = TypeVar("Other")
_FAILURES = (ShoalError, ValueError, KeyError, TypeError, ArithmeticError, *AWS_ERRORS)


@contextmanager
def noting(what: str, unread: list[str]) -> Iterator[None]:
    """Let a block fail: `unread` gets why, and the code behind the block goes on."""
    try:
        yield
    except _FAILURES as error:
        unread.append(f"{what}: {refusal(error)}")


@dataclass
class Look:
    """An execution as it is `now`; `unread` gathers what could not be read."""

    place: Place
    execution: Execution
    definition: Mapping[str, Any]
    parameters: Mapping[str, str]
    now: datetime
    unread: list[str] = field(default_factory=list)
    earlier: dict[str, list[Mapping[str, Any] | None]] = field(default_factory=dict)
    """The jobs that failed before a step's last one, once they are asked for."""

    @classmethod
    def at(cls, place: Place, arn: str) -> Look:
        """Look at the execution with this ARN. Raises ClientError if it cannot be read."""
        client = place.target.client("sagemaker")
        definition, values = definition_of(client, arn), given_parameters(client, arn)
        return cls(place, place.pipeline.look(arn), definition, values, datetime.now(UTC))

    def noting(self, what: str) -> AbstractContextManager[None]:
        """Return a context in which a failure becomes a note about `what`."""
        return noting(what, self.unread)

    def read(self, what: str, answer: Callable[[], Answer], otherwise: Other) -> Answer | Other:
        """Return an answer, or what stands for one that cannot be had, which is noted."""
        with self.noting(what):
            return answer()
        return otherwise

    @property
    def client(self) -> Any:
        return self.place.target.client("sagemaker")

    @property
    def ended_at(self) -> datetime | None:
        execution = self.execution
        ends = [step.ended_at for step in execution.steps if step.ended_at]
        return max(ends, default=execution.started_at) if execution.has_ended else None

    def job(self, step: Step) -> dict[str, Any] | None:
        """Return what Describe says of the step's job; None if it runs none."""
        with self.noting(step.name):
            for kind in JOBS:
                if arn := step.resource(kind):
                    name = job_name(self.place.target, kind, arn, step.started_at)
                    return self.described(kind, name)
        return None

    def trainings(self) -> Iterator[tuple[Step, dict[str, Any]]]:
        """Yield the steps that train, each with its job."""
        for step in self.execution.steps:
            if step.type == "Training" and (job := self.job(step)):
                yield step, job

    def described(self, kind: str, name: str) -> dict[str, Any]:
        """Return what Describe says of a job, with its `kind` and `name`."""
        describe = getattr(self.client, f"describe_{xform_name(kind)}")
        answer = describe(**{f"{kind}Name": name})
        return {**answer, "kind": kind, "name": name}

    def steps(self) -> Iterator[tuple[Step, list[str]]]:
        """Yield each step of the definition, in its order, and the names of those it waits for."""
        started = {step.name: step for step in self.execution.steps}
        for item, around in walk(self.definition.get("Steps", [])):
            name, own = item["Name"], dict(item)
            if item["Type"] == "Condition":
                own["Arguments"] = item["Arguments"].get("Conditions")
            needed = {
                each["Step"] if isinstance(each, dict) else each
                for each in item.get("DependsOn", ())
            }
            needed |= {*REFERENCE.findall(json.dumps(own)), around}
            step = started.get(name, Step(name, item["Type"], NOT_STARTED))
            yield step, sorted(needed - {name, ""})


def time_text(at: datetime | None) -> str | None:
    """Return a time as run.json has it."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds") if at else None


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """Return the seconds; None if one of the two is not known."""
    return round((end - start).total_seconds(), 3) if start and end else None
