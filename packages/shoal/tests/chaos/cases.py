"""Every case: what goes wrong with which step, under which circumstances, and what AWS documents of
such an execution's end.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

RATE_EXCEEDED = {"code": "ThrottlingException", "message": "Rate exceeded"}
LIMIT = {
    "code": "ResourceLimitExceeded",
    "message": (
        "The account-level service limit 'instances' is 0 Instances, with current utilization of 0."
    ),
}
REFUSED = {"code": "ValidationException", "message": "One or more parameters are not valid."}
DENIED = {"code": "AccessDeniedException", "message": "The role is not authorized to do this."}
UNPROVISIONED = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
)
NO_CAPACITY = f"CapacityError: {UNPROVISIONED}"
STATUS_EVENT = "SageMaker Model Building Pipeline Execution Status Change"
CREATES: Mapping[str, str] = {
    "Train": "CreateTrainingJob",
    "Evaluate": "CreateProcessingJob",
    "Register": "CreateModelPackage",
    "CreateModel": "CreateModel",
    "CreateEndpointConfig": "CreateEndpointConfig",
    "CreateEndpoint": "CreateEndpoint",
}
JOBS = ("Train", "Evaluate")
CALLS = ("Register", "CreateModel", "CreateEndpointConfig")
AFTER_THE_GATE = (
    "Register",
    "CreateModel",
    "CreateEndpointConfig",
    "CreateEndpoint",
    "SmokeTest",
    "Teardown",
)
SLOW_S = 3.0


@dataclass(frozen=True)
class Trouble:
    """What goes wrong with one step, and how an execution ends in which that happens and nothing
    else.

    `script`: the misbehaviour of our own training, evaluation or inference script, `<step>:<what>`;
    `rules`: the emulator's faults; `stop_at`: the step during which StopPipelineExecution comes;
    `any_status`: where the step in the graph runs after `Any`.
    """

    step: str
    fault: str
    status: str = "Failed"
    script: str = "none"
    rules: tuple[dict[str, Any], ...] = ()
    stop_at: str = ""
    any_status: str = ""
    packages: tuple[int, int] = (0, 0)
    """How few and how many versions may be registered."""
    max_runtime_s: int | None = None
    startup_s: int | None = None
    """How long the endpoint's container may take to answer; AWS takes no less than 60."""


@dataclass(frozen=True)
class Circumstance:
    """Which layers are on, and what happens to events and functions."""

    name: str
    step: str = "any"
    """The step in the graph: `any` (run condition Any), `completed` (after success only, the
    default), `none`.
    """
    rule: bool = True
    sweeper: bool = True
    rules: tuple[dict[str, Any], ...] = ()
    early_event: bool = False
    """A terminal event of this execution comes while it still runs."""
    nameless: bool = False
    """The name of the endpoint's configuration does not say which execution made it."""


@dataclass(frozen=True)
class Case:
    trouble: Trouble
    circumstance: Circumstance
    seed: int = field(default=0)

    @property
    def name(self) -> str:
        return f"{self.trouble.step}-{self.trouble.fault}-{self.circumstance.name}".replace(
            " ", "-"
        )

    @property
    def status(self) -> str:
        """The documented end of the execution."""
        if (
            self.circumstance.step == "none"
            and self.trouble.step == "Teardown"
            and not self.trouble.stop_at
        ):
            return "Succeeded"
        if self.circumstance.step == "any" and self.trouble.any_status:
            return self.trouble.any_status
        return self.trouble.status

    @property
    def rules(self) -> tuple[dict[str, Any], ...]:
        return (*self.trouble.rules, *self.circumstance.rules)


def on(operation: str, do: str, **more: Any) -> dict[str, Any]:
    return {"seam": "operation", "name": operation, "do": do, **more}


def _of_jobs(step: str) -> Iterator[Trouble]:
    create = CREATES[step]
    capacity = {"seam": "job", "name": create, "do": "fail", "message": NO_CAPACITY}
    yield Trouble(step, "fails", script=f"{step}:fails")
    yield Trouble(step, "killed", script=f"{step}:killed")
    yield Trouble(step, "hangs", script=f"{step}:hangs", max_runtime_s=6)
    yield Trouble(step, "stopped", "Stopped", script=f"{step}:hangs", stop_at=step)
    yield Trouble(
        step,
        "throttled",
        "Succeeded",
        rules=(on(create, "refuse", times=2, **RATE_EXCEEDED),),
        packages=(1, 1),
    )
    yield Trouble(step, "limit", rules=(on(create, "refuse", **LIMIT),))
    yield Trouble(step, "capacity", "Succeeded", rules=(capacity | {"times": 1},), packages=(1, 1))
    yield Trouble(step, "no capacity", rules=(capacity,))


def _of_calls(step: str) -> Iterator[Trouble]:
    create = CREATES[step]
    packages = (0, 0) if step == "Register" else (1, 1)
    twice = (1, 2) if step == "Register" else (1, 1)
    yield Trouble(step, "fails", rules=(on(create, "refuse", **REFUSED),), packages=packages)
    lost = (on(create, "lose answer", times=1),)
    yield Trouble(step, "answer lost", "Succeeded", rules=lost, packages=twice)
    yield Trouble(
        step,
        "hangs",
        "Succeeded",
        rules=(on(create, "delay", seconds=SLOW_S, times=1),),
        packages=(1, 1),
    )
    stopped = (on(create, "delay", seconds=SLOW_S, times=1),)
    yield Trouble(
        step, "stopped", "Stopped", rules=stopped, stop_at=step, packages=(packages[0], 1)
    )
    yield Trouble(
        step,
        "throttled",
        "Succeeded",
        rules=(on(create, "refuse", times=2, **RATE_EXCEEDED),),
        packages=(1, 1),
    )
    yield Trouble(step, "limit", rules=(on(create, "refuse", **LIMIT),), packages=packages)


def _of_the_endpoint() -> Iterator[Trouble]:
    step, one = "CreateEndpoint", (1, 1)
    capacity = {
        "seam": "endpoint",
        "do": "fail",
        "message": UNPROVISIONED,
    }
    yield Trouble(step, "fails", script=f"{step}:fails", packages=one)
    yield Trouble(step, "killed", script=f"{step}:killed", packages=one)
    yield Trouble(step, "hangs", script=f"{step}:hangs", packages=one, startup_s=60)
    yield Trouble(step, "stopped", "Stopped", script=f"{step}:slow", stop_at=step, packages=one)
    yield Trouble(step, "answer lost", rules=(on(step, "lose answer", times=1),), packages=one)
    yield Trouble(
        step,
        "throttled",
        "Succeeded",
        rules=(on(step, "refuse", times=2, **RATE_EXCEEDED),),
        packages=one,
    )
    yield Trouble(step, "limit", rules=(on(step, "refuse", **LIMIT),), packages=one)
    yield Trouble(step, "capacity", rules=(capacity,), packages=one)


def _of_the_smoke_test() -> Iterator[Trouble]:
    step = "SmokeTest"
    both: dict[str, Any] = {"any_status": "CompletedWithFailures", "packages": (1, 1)}
    function = {"seam": "function", "name": "*-smoke-test", "times": 1}
    yield Trouble(step, "fails", script=f"{step}:fails", **both)
    yield Trouble(step, "killed", rules=(function | {"do": "kill", "seconds": 0.01},), **both)
    yield Trouble(step, "model killed", script=f"{step}:model killed", rules=(), **both)
    yield Trouble(step, "hangs", rules=(function | {"do": "freeze", "seconds": 0.01},), **both)
    yield Trouble(step, "stopped", "Stopped", script=f"{step}:slow", stop_at=step, packages=(1, 1))
    yield Trouble(
        step,
        "throttled",
        rules=(function | {"do": "refuse", "http": 429, "code": "TooManyRequestsException"},),
        **both,
    )


def _of_the_teardown() -> Iterator[Trouble]:
    """With the step in the graph it is the step that is hit, without it the same function behind
    the queue.
    """
    step, one = "Teardown", (1, 1)
    function = {"seam": "function", "name": "*-teardown", "times": 1}
    waits = on("DeleteEndpointConfig", "delay", seconds=SLOW_S, times=1)
    yield Trouble(
        step, "fails", rules=(on("DeleteEndpoint", "refuse", times=1, **DENIED),), packages=one
    )
    yield Trouble(
        step, "killed", rules=(waits, function | {"do": "kill", "seconds": SLOW_S}), packages=one
    )
    yield Trouble(
        step, "hangs", rules=(waits, function | {"do": "freeze", "seconds": 0.3}), packages=one
    )
    yield Trouble(step, "stopped", "Stopped", rules=(waits,), stop_at=step, packages=one)
    yield Trouble(
        step,
        "throttled",
        "Succeeded",
        rules=(on("DeleteEndpoint", "refuse", times=3, **RATE_EXCEEDED),),
        packages=one,
    )
    yield Trouble(
        step,
        "slow",
        "Succeeded",
        rules=({"seam": "removal", "do": "delay", "seconds": 8.0, "times": 1},),
        packages=one,
    )


def troubles() -> Iterator[Trouble]:
    """Every step with everything that can go wrong with it, and one execution with which nothing is
    wrong.
    """
    yield Trouble("nothing", "wrong", "Succeeded", packages=(1, 1))
    for step in JOBS:
        yield from _of_jobs(step)
    yield Trouble("Gate", "fails", script="Gate:fails")
    for step in CALLS:
        yield from _of_calls(step)
    yield from _of_the_endpoint()
    yield from _of_the_smoke_test()
    yield from _of_the_teardown()


def _event(do: str, **more: Any) -> tuple[dict[str, Any], ...]:
    return ({"seam": "event", "name": STATUS_EVENT, "do": do, **more},)


# A deleter that is warm has done its work in a tenth of a second: it is held where it asks what
# there is to delete.
KILLED = (
    on("ListPipelineExecutionSteps", "delay", seconds=1.0),
    {"seam": "function", "name": "*-teardown", "do": "kill", "seconds": 0.5, "times": 1},
)
LAYERS = (
    Circumstance("all layers"),
    Circumstance("no step", step="none"),
    Circumstance("no rule", step="completed", rule=False),
    Circumstance("no sweeper", step="completed", sweeper=False),
)
DISTURBED = (
    Circumstance("queue only", step="none", sweeper=False),
    Circumstance("sweeper only", step="none", rule=False),
    Circumstance("events lost", step="none", rules=_event("lose")),
    Circumstance("events twice", step="none", sweeper=False, rules=_event("duplicate")),
    Circumstance("events late", step="none", sweeper=False, rules=_event("delay", seconds=4.0)),
    Circumstance(
        "events in disorder",
        step="none",
        sweeper=False,
        rules=_event("reorder", times=1),
        early_event=True,
    ),
    Circumstance("deleter killed", step="none", sweeper=False, rules=KILLED),
)
NAMELESS = (
    Circumstance("only tags", step="none", sweeper=False, nameless=True),
    Circumstance("only tags for the sweeper", step="none", rule=False, nameless=True),
)
_NAMELESS_TROUBLES = (
    "nothing-wrong",
    "CreateEndpointConfig-answer lost",
    "CreateEndpointConfig-stopped",
)
_DISTURBED_TROUBLES = (
    "nothing-wrong",
    "Train-stopped",
    "CreateModel-answer lost",
    "CreateEndpointConfig-answer lost",
    "CreateEndpoint-fails",
    "CreateEndpoint-hangs",
    "CreateEndpoint-stopped",
    "CreateEndpoint-answer lost",
    "SmokeTest-fails",
)
FAST = (
    "nothing-wrong-all-layers",
    "Train-killed-all-layers",
    "CreateEndpoint-fails-no-rule",
    "CreateEndpointConfig-answer-lost-only-tags",
)


def cases() -> list[Case]:
    """All cases, in the order in which they run: those that share the global switches together."""
    every = list(troubles())
    found = [
        Case(trouble, layers)
        for layers in LAYERS
        for trouble in every
        if not _comes_too_late(trouble, layers)
    ]
    chosen = [
        trouble for trouble in every if f"{trouble.step}-{trouble.fault}" in _DISTURBED_TROUBLES
    ]
    found += [Case(trouble, circumstance) for circumstance in DISTURBED for trouble in chosen]
    unreported = [
        trouble for trouble in every if f"{trouble.step}-{trouble.fault}" in _NAMELESS_TROUBLES
    ]
    found += [Case(trouble, circumstance) for circumstance in NAMELESS for trouble in unreported]
    queue = next(circumstance for circumstance in DISTURBED if circumstance.name == "queue only")
    found += [
        Case(trouble, queue)
        for trouble in every
        if trouble.step == "Teardown" and not trouble.stop_at
    ]
    seeded = [
        Case(case.trouble, case.circumstance, zlib.crc32(case.name.encode())) for case in found
    ]
    return sorted(
        seeded, key=lambda case: (not case.circumstance.rule, not case.circumstance.sweeper)
    )


def _comes_too_late(trouble: Trouble, layers: Circumstance) -> bool:
    """Without the step in the graph, queue and sweeper race to be the one that is hit; `queue only`
    has these cases.
    """
    return trouble.step == "Teardown" and layers.step == "none"
