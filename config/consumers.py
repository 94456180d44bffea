"""Which other accounts take releases from an environment: the environments' files in, what its policies must name out.

An environment says in `promoted_from` where its releases come from. Followed to the one that trains, that says whose registry, bucket and
key it reads when it serves; so the training environment's stacks are made with every file that leads to it. An environment to which
releases are copied has a registry of its own, and whoever is promoted to from there may read that one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from config.loader import environment_names, load_environment
from config.names import SERVING_PROOF, Names
from config.settings import Environment


@dataclass(frozen=True)
class Consumer:
    """An environment in another account that serves what was trained here."""

    environment: str
    account: str
    serving_role_arn: str
    """The roles that read archives when containers start there, as a pattern."""
    proof_role_arn: str
    """The role that reads the pinned archive when a deployment is proven there."""


def consumers_of(environment: Environment, root: Path) -> tuple[Consumer, ...]:
    """In the order of their names; none for an environment that pins another's version, and none of its own account, which IAM rules alone.

    Raises ConfigError when the file of any environment is wrong: nobody knows then whether it takes releases from here.
    """
    if environment.promoted_from is not None and (environment.release is None or environment.release.copied_from is None):
        return ()
    known = {name: load_environment(name, root) for name in environment_names(root) if name != environment.name}
    known[environment.name] = environment
    return tuple(
        Consumer(each.name, each.account, Names(each).serving_role_arn, Names(each).role_arn(SERVING_PROOF))
        for name, each in sorted(known.items())
        if each.account != environment.account and environment.name in _sources(name, known)
    )


def _sources(name: str, known: dict[str, Environment]) -> tuple[str, ...]:
    """The environments on the way to this one; none where the way goes in a circle."""
    seen: list[str] = []
    source: str | None = name
    while source is not None and source not in seen:
        seen.append(source)
        source = known[source].promoted_from
    return () if source is not None else tuple(seen[1:])
