"""Refuse names that two environments would share: each would change the resources of the other."""

from __future__ import annotations

from collections.abc import Iterable

from config.errors import ConfigError, Problem
from config.loader import environment_file
from config.names import Names
from config.settings import Environment


def require_own_names(environments: Iterable[Environment]) -> None:
    """Raise ConfigError if names of two of the environments in one account and region begin alike:
    `fraud` in `eu-dev` and `fraud-eu` in `dev` are both `shoal-fraud-eu-dev`.

    Each environment is there once for each of its workloads.
    """
    owners: dict[tuple[str, str, str], str] = {}
    for environment in environments:
        names = Names(environment)
        for prefix in dict.fromkeys((names.shared_prefix, names.prefix)):
            place = (environment.account, environment.region, prefix)
            other = owners.setdefault(place, environment.name)
            if other != environment.name:
                message = f"its names would begin with {prefix}, as those of {other} do"
                advice = "rename the environment, its workload or `project`"
                problem = Problem("name", message, advice, environment.name)
                raise ConfigError(environment_file(environment.name), [problem])
