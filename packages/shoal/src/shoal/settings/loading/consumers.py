"""What environments have to do with each other: the environments in other accounts that take
releases from one, and names that two would share.

`promoted_from` says where an environment's releases come from. Followed back to the environment
that trains, it says whose registry, bucket and key a serving environment reads when it brings a
release. So the stacks of the training environment are made with every file that leads to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from shoal.settings.loading.loader import environment_file, environment_names, load_workloads
from shoal.settings.loading.rules import is_placeholder_account
from shoal.settings.names import BRING, Names
from shoal.settings.parsing.errors import ConfigError, Problem
from shoal.settings.settings import Environment


@dataclass(frozen=True)
class Consumer:
    """An environment in another account that serves what was trained here."""

    environment: str
    account: str
    role_arn: str
    """The role that brings archives there; a pattern where several workloads have one each."""


def consumers_of(environment: Environment, root: Path) -> tuple[Consumer, ...]:
    """Return the consumers by name, without those in its own account, where IAM alone decides,
    and without `left_out_of`; none where nothing is trained.

    Raises ConfigError when the file of any environment is wrong: it might take releases from here.
    """
    return tuple(
        Consumer(each.name, each.account, Names(each).every.role_arn(BRING))
        for each in _in_other_accounts(environment, root)
        if not _is_left_out(each, environment)
    )


def left_out_of(environment: Environment, root: Path) -> tuple[Environment, ...]:
    """Return the environments that would be consumers, but whose account is a placeholder.

    No such account is named in a policy: AWS refuses a policy whose principal does not exist, or
    shares with the stranger whose account it is. Where the source's own account is a placeholder
    too, nothing can be deployed to AWS, and the accounts that shoal-local plays are named.
    """
    return tuple(
        each for each in _in_other_accounts(environment, root) if _is_left_out(each, environment)
    )


def _is_left_out(consumer: Environment, source: Environment) -> bool:
    return is_placeholder_account(consumer.account) and not is_placeholder_account(source.account)


def _in_other_accounts(environment: Environment, root: Path) -> list[Environment]:
    """Return the environments of other accounts, by name, whose releases this one trains."""
    environments = {
        name: load_workloads(name, root)[0]
        for name in environment_names(root)
        if name != environment.name
    }
    environments[environment.name] = environment
    return [
        each
        for name, each in sorted(environments.items())
        if each.account != environment.account and _origin(name, environments) == environment.name
    ]


def _origin(name: str, environments: dict[str, Environment]) -> str | None:
    """Return the environment that trains what this one serves; None where the way is a circle."""
    seen: list[str] = []
    while (source := environments[name].promoted_from) is not None:
        seen.append(name)
        if source in seen:
            return None
        name = source
    return name


def require_own_names(environments: Iterable[Environment]) -> None:
    """Refuse names that two environments would share: each would change the resources of the other.

    Raises ConfigError if names of two of the environments in one account and region begin alike:
    `fraud` in `eu-dev` and `fraud-eu` in `dev` are both `shoal-fraud-eu-dev`; scoring of `fraud` in
    `dev` is `shoal-fraud-dev-score`.

    Each environment is there once for each of its workloads.
    """
    owners: dict[tuple[str, str, str], str] = {}
    for environment in environments:
        names = Names(environment)
        scores = (names.scoring.pipeline,) if environment.scoring else ()
        for prefix in dict.fromkeys((names.shared_prefix, names.prefix, *scores)):
            place = (environment.account, environment.region, prefix)
            other = owners.setdefault(place, environment.name)
            if other != environment.name:
                message = f"its names would begin with {prefix}, as those of {other} do"
                advice = "rename the environment, its workload or `project`"
                problem = Problem("name", message, advice, environment.name)
                raise ConfigError(environment_file(environment.name), [problem])
