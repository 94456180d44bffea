"""What environments have to do with each other: the environments in other accounts that take
releases from one, names that two would share, and whether what one pins is what another trained.

`promoted_from` says where an environment's releases come from. Followed back to the environment
that trains, it says whose registry, bucket and key a serving environment reads when it brings a
release. So the stacks of the training environment are made with every file that leads to it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from shoal.settings.loading.loader import (
    environment_file,
    environment_names,
    load_source,
    load_workloads,
)
from shoal.settings.names import BRING, Names
from shoal.settings.parsing.errors import ConfigError, Problem
from shoal.settings.sections.release import foreign_code_variable
from shoal.settings.settings import Environment

_PLACEHOLDER_ACCOUNT = re.compile(r"^(\d)\1{3}(\d)\2{3}(\d)\3{3}$|^123456789012$")
_PROMOTE = "take it out of the file, and let `shoal promote` write it"


@dataclass(frozen=True)
class Consumer:
    """An environment in another account that serves what was trained here."""

    environment: str
    account: str
    role_arn: str
    """The role that brings archives there; a pattern where several workloads have one each."""


def is_placeholder_account(account: str) -> bool:
    """Return whether it is an id of documentation, as 111122223333: nobody can deploy there."""
    return _PLACEHOLDER_ACCOUNT.match(account) is not None


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
        for _, each in sorted(environments.items())
        if each.account != environment.account
        and path_of(each, lambda one: environments.get(one.promoted_from or ""))[-1] is environment
    ]


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


def pin_problems(environment: Environment, root: Path | None) -> Iterator[Problem]:
    """Yield where the environment's pin is not what `shoal promote` would pin of the environment
    that trains; without `root` no other file is read.

    Not when a file is read: else `shoal promote` could not read the file that it repairs.

    Raises ConfigError when the file of an environment that it takes releases from is wrong.
    """
    if (release := environment.release) is None:
        return
    if variable := foreign_code_variable(release.environment):
        message = f"{variable} makes the container take code from elsewhere than its archive"
        yield Problem("release.environment", message, _PROMOTE)
    if root is None:
        return
    # The version and its archive must be in the registry and the bucket of the one that trains.
    origin = path_of(environment, lambda each: load_source(each, root))[-1]
    names = Names(origin)
    group = names.arn("sagemaker", f"model-package/{names.model_package_group}")
    if release.model_package_arn.rpartition("/")[0] != group:
        message = f"is no version of {origin.name}, which trains what is served here: {group}/*"
        arn = release.model_package_arn
        yield Problem("release.model_package_arn", message, _PROMOTE, arn)
    url = names.sealed_url(release)
    if release.model_data_url != url:
        message = f"is not where {origin.name} seals that model_data_sha256: {url}"
        yield Problem("release.model_data_url", message, _PROMOTE, release.model_data_url)


def path_of(
    environment: Environment, source_of: Callable[[Environment], Environment | None]
) -> list[Environment]:
    """Return the environment and those that it takes releases from, down to the one that trains."""
    path = [environment]
    while source := source_of(path[-1]):
        path.append(source)
    return path
