"""The emulator itself is killed with SIGKILL while a step runs, and started again (or cleaned up
after) with the same state directory.

Its account is in its memory and is lost; AWS has nothing like that. What must hold: no process,
port, lock or temporary file outlives the next start or `down`, nothing of the old account is in the
new one, and the same stacks deploy into it and an execution succeeds.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from local_kit.control import eventually
from tests.chaos.cases import TABLE, Seeded
from tests.chaos.rig import TERMINAL, Result, variant
from tests.chaos.world import World

_LIMIT_S = 240.0


@dataclass(frozen=True)
class Crash(Seeded):
    """While `step` runs, held there by our script or by a frozen function; afterwards a new
    emulator, or `emulator down`.
    """

    step: str
    script: str = "none"
    frozen: str = ""
    then: str = "restarted"

    @property
    def name(self) -> str:
        return f"emulator-killed-during-{self.step}-{self.then}"


def crashes() -> list[Crash]:
    """Every step that has a process, and both ways to go on."""
    ways = ("restarted", "cleaned")
    return [Crash(**row, then=then) for row in TABLE["crashes"] for then in ways]


def run(world: World, chosen: Sequence[Crash], say: Callable[[Result], None]) -> list[Result]:
    """One after the other, in a world that has been started; it is deployed again for each.

    Afterwards it runs.
    """
    results = []
    for crash in chosen:
        result = Result(crash.name)
        begun = time.monotonic()
        with result.judging():
            world.deploy()
            _go_on_until(world, crash)
            world.kill()
            ended = time.monotonic()
            by = "the next start" if world.processes(str(world.state)) else "itself"
            result.status = f"ended by {by}"
            result.seconds = ended - begun
            if crash.then == "cleaned":
                world.clean_up()
                result.left = [*world.left(), *([str(world.state)] if world.state.exists() else [])]
            old = world.endpoint
            world.start()
            result.problems += _not_new(world)
            if crash.then == "restarted":
                result.left = world.left_of(old)
            result.cleaned_s = time.monotonic() - ended
        results.append(result)
        say(result)
    return results


def _go_on_until(world: World, crash: Crash) -> None:
    """Start an execution and wait for the moment of the crash; with nothing to crash in, for its
    success.
    """
    label = f"{crash.name}-{time.time_ns():x}"[:82]
    if crash.frozen:
        world.fault(
            seam="function", do="freeze", name=crash.frozen, execution=label, seconds=0.05, times=1
        )
    arn = world.begin(variant(world.definition, "completed"), label, crash.script)
    begun = eventually(lambda: _there(world, arn, crash, label), _LIMIT_S)
    assert begun, f"{crash.step} never began"
    time.sleep(random.Random(crash.seed).uniform(0.0, 2.0))


def _there(world: World, arn: str, crash: Crash, label: str) -> bool:
    status, steps = world.status(arn), world.steps(arn)
    if crash.step == "nothing":
        assert status not in TERMINAL or status == "Succeeded", f"{status}: {steps}"
        return status in TERMINAL
    assert status not in TERMINAL, f"{status} before {crash.step}: {steps}"
    if crash.frozen:
        return bool(world.happened(label))
    return steps.get(crash.step, ("", ""))[0] == "Executing"


def _not_new(world: World) -> Iterator[str]:
    """What a new account must not have."""
    sagemaker: Any = world.client("sagemaker")
    for operation, key in (
        ("list_pipelines", "PipelineSummaries"),
        ("list_endpoints", "Endpoints"),
        ("list_models", "Models"),
        ("list_training_jobs", "TrainingJobSummaries"),
    ):
        if found := getattr(sagemaker, operation)()[key]:
            yield f"the new account has {key}: {found}"
