"""The case that runs, or every reason why none does and what would run instead.

What is offered instead has passed all rules itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from shoal.launch import rules, tables
from shoal.launch.case import FALLBACKS, SMDDP, Case
from shoal.launch.source_code import SourceCode
from shoal.settings.parsing.errors import Problem
from shoal.settings.settings import Strategy, Training


def choose(training: Training, region: str, code: SourceCode) -> tuple[Case, list[Problem]]:
    """Return the case that runs and, where it is the fallback, why the strategy cannot."""
    case = Case.of(training, region, code, training.strategy)
    reasons = rules.problems(case, mended_by_fallback=True)
    if reasons and training.fallback in case.fallbacks:
        return Case.of(training, region, code, training.fallback), reasons
    return case, []


def problems_of(case: Case) -> list[Problem]:
    """Return every reason why `case` cannot run, each with what to do."""
    mendable = rules.problems(case, mended_by_fallback=True)
    others = rules.problems(case, mended_by_fallback=False)
    if not mendable:
        return others
    offers = list(_strategies(case, others))
    if case.training.strategy in SMDDP and not offers:
        offers = _later_version(case, others)
    instead = f", or set {', or '.join(offers)}" if offers else ""
    return [
        problem
        if problem.key == "training.source_dir"
        else replace(problem, advice=problem.advice + instead)
        for problem in mendable
    ] + others


def _strategies(case: Case, others: list[Problem]) -> Iterator[str]:
    """Yield the strategies and fallbacks that would run."""
    for key in ("strategy", "fallback"):
        able = [
            strategy
            for strategy in FALLBACKS[case.framework]
            if _runs(case, others, strategy, {key: strategy})
        ]
        if able:
            yield f"training.{key}: {' or '.join(able)}"


def _later_version(case: Case, others: list[Problem]) -> list[str]:
    """Return the first later version of AWS's images with which another strategy would run."""
    if case.training.image_uri is not None or case.training.build_image is not None:
        return []
    later = [version for version in case.images if tables.is_older(case.version, version)]
    for version, strategy in product(later, FALLBACKS[case.framework]):
        if _runs(case, others, strategy, {"framework_version": version, "strategy": strategy}):
            return [f"training.framework_version: {version} with training.strategy: {strategy}"]
    return []


def _runs(
    case: Case, others: list[Problem], expected: Strategy, changes: Mapping[str, str]
) -> bool:
    """Return whether `expected` would run with these keys, but for the problems that stay."""
    keys = case.training.model_dump(exclude_unset=True) | dict(changes)
    changed, _ = choose(Training.model_validate(keys), case.region, case.code)
    if changed.strategy is not expected or rules.problems(changed, mended_by_fallback=True):
        return False
    accepted = {(problem.key, problem.message) for problem in others}
    return all(
        (problem.key, problem.message) in accepted
        for problem in rules.problems(changed, mended_by_fallback=False)
    )
