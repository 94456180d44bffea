"""Which other environments run what an environment's registry and bucket hold: their files and
stacks in, reasons not to destroy it out.

An endpoint reads its archive again whenever a container starts: without it, the next one to be
replaced or added does not come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from config.names import Names
from config.settings import Environment
from shoal.verbs.deployed_stack import status_of_stack
from shoal.verbs.errors import AWS_ERRORS, ShoalError, refusal
from shoal.verbs.serving import live
from shoal.verbs.target import Target

Find = Callable[[Environment], Target | None]
"""Where an environment is; None where it cannot be anywhere.

May refuse, for want of credentials.
"""


def reasons_to_keep(names: Names, others: Iterable[Environment], find: Find) -> Iterator[str]:
    """One for each environment that serves a version of the registry, or pins one and is deployed,
    or cannot be asked and may serve one.

    `names`: of the environment that has the registry.
    """
    versions = names.arn("sagemaker", f"model-package/{names.model_package_group}/")
    for other in others:
        pinned = other.release.model_package_arn if other.release else ""
        pins = f"{other.name} pins {pinned}" if pinned.startswith(versions) else ""
        try:
            if target := find(other):
                yield from _reasons(Names(other), target, versions, pins)
        except (ShoalError, *AWS_ERRORS) as error:
            if pins or (other.serving and other.promoted_from):
                yield (
                    f"{pins or f'{other.name} takes releases'}, and whether it serves one of these"
                    f" is not known ({refusal(error)})"
                )


def _reasons(other: Names, target: Target, versions: str, pins: str) -> Iterator[str]:
    found = live(target, other.serving_endpoint)
    if served := [arn for arn in (found.packages if found else ()) if arn.startswith(versions)]:
        yield f"{other.serving_endpoint} serves {', '.join(served)}"
    elif pins and status_of_stack(target, other.stack("pipeline")):
        yield pins
