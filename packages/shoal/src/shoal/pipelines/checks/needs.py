"""What each rank needs of its GPU, as the workload's own function says it, and where that fits.

Only the workload knows what its hyperparameters mean: `plan` in workload.yaml names a Python file
with `def plan(job)`. Here it is asked, for the settings as they are and for others that could help.
"""

import runpy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from shoal.launch import launch_of, tables
from shoal.settings.capacity import Capacity
from shoal.settings.hyperparameters import HyperparameterValue, as_text
from shoal.settings.loading.workload import FOLDER, load_workload, workload_file, workload_folder
from shoal.settings.parsing.base import Settings
from shoal.settings.parsing.errors import ConfigError, Problem, Risk
from shoal.settings.settings import Environment

NAME = "plan"
TOLERANCE = 0.1
"""How far an estimate may be off: what needs more than the GPU has, by less, may fit."""
MAX_NODES = 64
KEY = "training.instance_type"
Runs = Callable[[Environment], object]
"""Raises ConfigError for an environment that cannot run, whatever it needs."""


class Need(Settings):
    """What `plan` returns."""

    memory: dict[str, Annotated[int, Field(ge=0)]]
    """Bytes of a rank when it needs most, by what they are for."""
    steps: Annotated[int, Field(ge=1)] | None = None
    """Steps of the whole training."""
    step_s: Annotated[float, Field(gt=0)] | None = None
    """Seconds of a step; left out where nobody published a number."""
    source: str = ""
    """Where `step_s` is from."""
    smaller: tuple[dict[str, HyperparameterValue], ...] = ()
    """Hyperparameters that need less memory, the best first."""

    @property
    def seconds(self) -> float | None:
        """All steps, without starting and saving; None where a step's time is not known."""
        return self.step_s * self.steps if self.step_s and self.steps else None

    @property
    def gib(self) -> float:
        return sum(self.memory.values()) / 2**30


@dataclass(frozen=True)
class Place:
    """An instance type, how many of them, and what a rank needs there."""

    instance_type: str
    nodes: int
    gpu: tables.GpuMemory
    need: Need

    @property
    def fits(self) -> bool:
        return self.need.gib <= self.gpu.gib


class Unknown(Exception):  # noqa: N818 - no mistake of anybody
    """Nothing says what a rank needs; `str()` is the reason."""


def place_of(environment: Environment, root: Path) -> Place:
    """Return where the environment trains and what a rank needs. Raises Unknown, ConfigError."""
    training, file = environment.training, workload_file(environment.workload)
    gpu = tables.gpu_memory(training.instance_type)
    if gpu is None or (training.processes_per_host or 0) > gpu.count:
        raise Unknown(f"no table has the GPU memory of a rank on {training.instance_type}")
    is_own = training.source_dir.startswith(f"{FOLDER}/{environment.workload}/")
    if environment.pipeline or not is_own:
        raise Unknown(f"a `plan` of {file} would be for its own scripts, in Shoal's pipeline")
    script = load_workload(environment.workload, root).plan
    if script is None:
        raise Unknown(f"{file} names no `plan`, which says what a rank needs")
    answer = _ask(workload_folder(environment.workload, root) / script, environment, gpu, root)
    return Place(training.instance_type, training.instance_count, gpu, answer)


def _ask(script: Path, environment: Environment, gpu: tables.GpuMemory, root: Path) -> Need:
    training, launch = environment.training, launch_of(environment, root)
    per_node = training.processes_per_host or gpu.count
    job: dict[str, Any] = {
        "hyperparameters": training.hyperparameters,
        "channels": list(environment.data.channels),
        "ranks": training.instance_count * per_node,
        "ranks_per_node": per_node,
        "gpu": gpu.gpu,
        "gpu_gib": gpu.gib,
        "framework_version": training.framework_version,
        "smddp": launch.case.contract.is_smddp_by_mpirun,
    }
    shown = f"{FOLDER}/{script.parent.name}/{script.name}"
    try:
        return Need.model_validate(runpy.run_path(str(script))[NAME](job))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "the answer"
        message = f"returned something else than it should at {where}: {error.errors()[0]['msg']}"
        raise ConfigError(shown, [Problem(NAME, message, "correct it")]) from error
    except NotImplementedError as error:
        raise Unknown(str(error)) from error
    except ValueError as error:
        key, advice = "training.hyperparameters", "correct them, or the number of ranks"
        raise ConfigError("", [Problem(key, str(error), advice)]) from error
    except Exception as error:  # whatever a user's own function raises
        message = f"failed: {type(error).__name__}: {error}"
        raise ConfigError(shown, [Problem(NAME, message, "correct it")]) from error


def findings(environment: Environment, root: Path, runs: Runs) -> Iterator[Problem | Risk]:
    """Yield a problem if a rank needs more than its GPU has, with what would fit; and a risk if
    only a run can tell whether it fits, or has the time for its steps.

    Raises ConfigError as `place_of` does.
    """
    try:
        place = place_of(environment, root)
    except Unknown:
        return
    largest = sorted(place.need.memory.items(), key=lambda item: -item[1])[:3]
    parts = ", ".join(f"{size / 2**30:.1f} {what}" for what, size in largest)
    message = (
        f"each rank needs about {place.need.gib:.1f} GiB ({parts}), and a GPU of"
        f" {place.instance_type} has {place.gpu.gib}"
    )
    if place.need.gib * (1 - TOLERANCE) > place.gpu.gib:
        changes = list(_changes(environment, root, place, runs))
        advice = f"what would fit: {'; '.join(changes)}" if changes else "make the model smaller"
        yield Problem(KEY, message, advice, place.instance_type)
    elif not place.fits:
        yield Risk(f"{KEY}: {message}; the estimate may be 10 % off")
    seconds, limit = place.need.seconds, environment.training.max_runtime_s
    if seconds and seconds > limit:
        yield Risk(
            f"training.max_runtime_s: the steps alone take about {seconds:,.0f} s, and SageMaker"
            f" stops the job after {limit:,}; set more than {seconds:.0f}, or fewer steps"
        )


def _changes(environment: Environment, root: Path, place: Place, runs: Runs) -> Iterator[str]:
    """Yield the first change of each kind that would do: hyperparameters, nodes, instance type."""
    training = environment.training
    for changes in place.need.smaller:
        if _would_fit(environment, root, hyperparameters=training.hyperparameters | changes):
            settings = (f"{name}: {as_text(value)}" for name, value in changes.items())
            yield f"hyperparameters {', '.join(settings)}"
            break
    nodes = training.instance_count * 2
    while nodes <= MAX_NODES and not _would_fit(environment, root, instance_count=nodes):
        nodes *= 2
    if nodes <= MAX_NODES:
        yield f"instance_count {nodes}"
    fitting = (each for each in places(environment, root, runs) if each.fits)
    yield from (f"instance_type {each.instance_type}" for each in islice(fitting, 1))


def _would_fit(environment: Environment, root: Path, **changes: Any) -> bool:
    try:
        return place_of(_changed(environment, **changes), root).fits
    except (ConfigError, Unknown):
        return False


def _changed(environment: Environment, **changes: Any) -> Environment:
    alone: dict[str, Any] = {"other_instance_types": (), "capacity": Capacity()}
    training = environment.training.model_copy(update=alone | changes)
    return environment.model_copy(update={"training": training})


def places(environment: Environment, root: Path, runs: Runs) -> Iterator[Place]:
    """Yield the types with as many GPUs a node that run it, those with less memory first, each with
    the nodes of `capacity.preferences`. Raises as `place_of` does.
    """
    here, counts = place_of(environment, root), environment.training.candidates
    types = tables.with_gpus(here.gpu.count)
    for name in sorted(types, key=lambda each: types[each].gib):
        nodes = counts.get(name, here.nodes)
        other = _changed(environment, instance_type=name, instance_count=nodes)
        try:
            runs(other)
            yield place_of(other, root)
        except ConfigError:
            continue
