"""Other environments that serve the models of an environment, and so are reasons not to destroy it.

An endpoint reads its archive again whenever a container starts. Without the archive, the next
container that is replaced or added does not start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from config.names import Names
from config.settings import Environment
from shoal.verbs.deployed_stack import status_of_stack
from shoal.verbs.errors import AWS_ERRORS, ShoalError, refusal
from shoal.verbs.serving import live_endpoint
from shoal.verbs.target import Target

FindTarget = Callable[[Environment], Target | None]
"""Returns where an environment is, or None where it cannot be anywhere.

May raise, for want of credentials.
"""


def reasons_to_keep(
    names: Names, others: Iterable[Environment], find_target: FindTarget
) -> Iterator[str]:
    """Yield a reason for each environment that serves a version of the registry or may serve one.

    `names` is the environment with the registry. An environment counts if it serves a version, or
    pins one and is deployed, or if it takes releases and cannot be asked.
    """
    versions = names.arn("sagemaker", f"model-package/{names.model_package_group}/")
    for other in others:
        pinned = other.release.model_package_arn if other.release else ""
        pins = f"{other.name} pins {pinned}" if pinned.startswith(versions) else ""
        try:
            if target := find_target(other):
                yield from _reasons(Names(other), target, versions, pins)
        except (ShoalError, *AWS_ERRORS) as error:
            if pins or (other.serving and other.promoted_from):
                yield (
                    f"{pins or f'{other.name} takes releases'}, and whether it serves one of these"
                    f" is not known ({refusal(error)})"
                )


def _reasons(other: Names, target: Target, versions: str, pins: str) -> Iterator[str]:
    endpoint = live_endpoint(target, other.serving_endpoint)
    if packages := [
        arn for arn in (endpoint.packages if endpoint else ()) if arn.startswith(versions)
    ]:
        yield f"{other.serving_endpoint} serves {', '.join(packages)}"
    elif pins and status_of_stack(target, other.stack("pipeline")):
        yield pins
