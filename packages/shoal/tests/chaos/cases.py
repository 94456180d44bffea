"""Every case (cases.yaml): what goes wrong with which step, under which circumstances, and what AWS
documents of such an execution's end.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from local_kit.tables import table

JOBS = ("Train", "Evaluate")
TABLE = table(__file__, "cases.yaml")
FAST: list[str] = TABLE["fast"]
CAPACITY: dict[str, Any] = TABLE["capacity"]
"""What the emulator's capacity file says."""


@dataclass(frozen=True)
class Trouble:
    """What goes wrong with one step, and how an execution ends in which that happens and nothing
    else.
    """

    step: str
    fault: str
    status: str = "Failed"
    script: str = "none"
    """The misbehaviour of our own training, evaluation or inference script, `<step>:<what>`."""
    rules: tuple[dict[str, Any], ...] = ()
    """The emulator's faults."""
    stop_at: str = ""
    """The step during which StopPipelineExecution comes."""
    any_status: str = ""
    """The status where the step in the graph runs after `Any`."""
    packages: tuple[int, int] = (0, 0)
    """How few and how many versions may be registered."""
    max_runtime_s: int | None = None
    types: tuple[str, ...] = ()
    """The instance types that the training job asks for, in this order."""
    max_pending_s: int | None = None
    told: str = ""
    """What the page says of it, besides the texts of `rules`."""
    startup_s: int | None = None
    """How long the endpoint's container may take to answer; AWS takes no less than 60."""


NOTHING_WRONG = Trouble("nothing", "wrong", "Succeeded", packages=(1, 1))


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


class Seeded:
    """What has a seed of its own, by its name."""

    @property
    def name(self) -> str:
        raise NotImplementedError

    @property
    def seed(self) -> int:
        return zlib.crc32(self.name.encode())


@dataclass(frozen=True)
class Case(Seeded):
    trouble: Trouble
    circumstance: Circumstance

    @property
    def name(self) -> str:
        name = f"{self.trouble.step}-{self.trouble.fault}-{self.circumstance.name}"
        return name.replace(" ", "-")

    @property
    def switches(self) -> tuple[bool, bool]:
        """Whether the rule and the sweeper are on, which they are for all executions at once."""
        return self.circumstance.rule, self.circumstance.sweeper

    @property
    def status(self) -> str:
        """The documented end of the execution."""
        trouble, step = self.trouble, self.circumstance.step
        if step == "none" and trouble.step == "Teardown" and not trouble.stop_at:
            return "Succeeded"
        return (step == "any" and trouble.any_status) or trouble.status

    @property
    def rules(self) -> tuple[dict[str, Any], ...]:
        return (*self.trouble.rules, *self.circumstance.rules)


def troubles() -> Iterator[Trouble]:
    """Every step with everything that can go wrong with it, and one execution with which nothing is
    wrong.
    """
    for group in TABLE["troubles"]:
        shared = {key: group[key] for key in ("packages", "any_status") if key in group}
        for step in group["steps"]:
            words = {"STEP": step, "CREATE": TABLE["creates"].get(step)}
            for row in group["rows"]:
                fields = _filled(shared | row, words)
                lists = {"packages": (0, 0), "types": ()}
                tuples = {key: tuple(fields.get(key, none)) for key, none in lists.items()}
                yield Trouble(step, **fields | tuples)


def _filled(row: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a row with `words` in the place of their names."""
    fields = {
        key: value.replace("STEP", words["STEP"]) if isinstance(value, str) else value
        for key, value in row.items()
    }
    rules = (
        {key: words.get(value, value) for key, value in rule.items() if value is not None}
        for rule in row.get("rules", ())
    )
    return fields | {"rules": tuple(rules)}


def cases() -> list[Case]:
    """All cases, in the order in which they run: those that share the global switches together."""
    every = list(troubles())
    found = []
    for row in TABLE["circumstances"]:
        fields, rules = dict(row), tuple(row.get("rules", ()))
        names = fields.pop("troubles", None)
        circumstance = Circumstance(**fields | {"rules": rules})
        tried = (each for each in every if _is_tried(each, circumstance, names))
        found += [Case(trouble, circumstance) for trouble in tried]
    return sorted(found, key=lambda case: case.switches, reverse=True)


def _is_tried(trouble: Trouble, circumstance: Circumstance, names: list[str] | None) -> bool:
    """Without the step in the graph, queue and sweeper race to be the one that is hit: its troubles
    are tried with `queue only`.
    """
    if trouble.step == "Teardown" and circumstance.name == "queue only":
        return not trouble.stop_at
    if names is not None:
        return f"{trouble.step}-{trouble.fault}" in names
    return trouble.step != "Teardown" or circumstance.step != "none"
