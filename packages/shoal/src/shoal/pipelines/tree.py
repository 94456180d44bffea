"""The steps of a pipeline as a tree, in which a condition holds branches of further steps.

It says which steps wait for which. `shoal.pipelines.graph.Pipeline` checks and edits the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from shoal.pipelines.expressions import Expression, Property, PropertyFile, expressions_in
from shoal.pipelines.steps import After, Condition, Step, Trigger

PlacedStep = tuple[Step, tuple[str, ...]]
"""A step and the branches around it, outermost first, as in `("Gate/0",)`."""


def walk(steps: Sequence[Step], path: tuple[str, ...] = ()) -> Iterator[PlacedStep]:
    """Yield every step with the branches around it."""
    for step in steps:
        yield step, path
        for index, branch in enumerate(step.branches()):
            yield from walk(branch, (*path, f"{step.name}/{index}"))


def needed_steps(step: Step, read: Iterable[Expression] | None = None) -> set[str]:
    """Return the names of the steps that must have ended before `step`.

    These are the named ones and those whose results it reads. `read` are its expressions, where
    they are known already.
    """
    values = expressions_in(step.values()) if read is None else read
    return {value.step for value in values if isinstance(value, Property | PropertyFile)} | {
        each.step for each in step.dependencies()
    }


def conditions_around(path: tuple[str, ...]) -> set[str]:
    """Return the conditions that a step with this path stands in."""
    return {place.rsplit("/", 1)[0] for place in path}


def changed(steps: Sequence[Step], change: Callable[[Step], Iterable[Step]]) -> tuple[Step, ...]:
    """Return the tree with what `change` returns in the place of each step: none, one or more.

    A step in a branch is changed before the condition around it.
    """
    return tuple(new for step in steps for new in change(_with_changed_branches(step, change)))


def _with_changed_branches(step: Step, change: Callable[[Step], Iterable[Step]]) -> Step:
    if not isinstance(step, Condition):
        return step
    return replace(
        step, if_true=changed(step.if_true, change), if_false=changed(step.if_false, change)
    )


def followers(steps: Sequence[Step], name: str) -> set[str]:
    """Return the steps that wait for `name`, without those that wait for another of them."""
    graph = _graph(steps)
    every = {step.name for step, _ in walk(steps) if name in needed_steps(step)}
    return {each for each in every if not _reachable(graph, (each,)) & every}


def last_of(steps: Sequence[Step], names: Collection[str]) -> list[str]:
    """Return those of `names` that no other of them waits for, in the order of the tree."""
    earlier = _reachable(_graph(steps), names)
    return [step.name for step, _ in walk(steps) if step.name in names and step.name not in earlier]


def _graph(steps: Sequence[Step]) -> dict[str, set[str]]:
    """Return what each step waits for itself: a step in a branch waits for the condition, too."""
    return {step.name: needed_steps(step) | conditions_around(path) for step, path in walk(steps)}


def _reachable(graph: Mapping[str, Collection[str]], names: Iterable[str]) -> set[str]:
    """Return what `names` wait for, directly or not."""
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        new = set(graph.get(waiting.pop(), ())) - reached
        reached |= new
        waiting.extend(new)
    return reached


def left_of(steps: Sequence[Step], names: Iterable[str], gone: Collection[str]) -> set[str]:
    """Return `names`, with the steps before them in the place of those that are `gone`."""
    needed = {step.name: needed_steps(step) for step, _ in walk(steps)}
    left: set[str] = set()
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in gone:
            left.add(name)
        elif name not in seen:
            seen.add(name)
            waiting.extend(needed[name])
    return left


def waiting_for(step: Step, others: Iterable[After]) -> Step:
    """Return `step`, which also waits for those of `others` that it does not wait for yet."""
    needed = needed_steps(step)
    new = tuple(
        other if other.trigger is not Trigger.COMPLETED else other.step
        for other in others
        if other.step not in needed
    )
    return replace(step, depends_on=(*step.depends_on, *new)) if new else step


def trigger_of(step: Step, name: str) -> Trigger:
    """Return how `name` must end to let `step` start."""
    triggers = {each.step: each.trigger for each in step.dependencies()}
    return triggers.get(name, Trigger.COMPLETED)


def renamed(step: Step, old: str, new: str) -> Step:
    """Return `step` with `new` in the place of `old` among the steps that it waits for."""
    if old not in {each.step for each in step.dependencies()}:
        return step
    depends_on = tuple(
        each
        if _name_of(each) != old
        else replace(each, step=new)
        if isinstance(each, After)
        else new
        for each in step.depends_on
    )
    return replace(step, depends_on=depends_on)


def independent_of(step: Step, names: Collection[str]) -> Step:
    """Return `step` without `names` among the steps that it waits for; it may still read them."""
    left = tuple(each for each in step.depends_on if _name_of(each) not in names)
    return step if left == step.depends_on else replace(step, depends_on=left)


def _name_of(dependency: str | After) -> str:
    return dependency if isinstance(dependency, str) else dependency.step
