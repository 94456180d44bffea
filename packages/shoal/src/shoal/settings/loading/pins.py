"""Whether a pinned release is what `shoal promote` would pin: of the environment that trains.

The files of other environments say which one that is, so this is no rule of one file. It is
checked by `shoal check` and by every synth, not when a file is read: otherwise `shoal promote`
could not read the file that it repairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from shoal.settings.loading.container_code import foreign_code_variable
from shoal.settings.loading.loader import load_source
from shoal.settings.names import Names
from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.release import Release
from shoal.settings.settings import Environment

_PROMOTE = "take it out of the file, and let `shoal promote` write it"


def problems(environment: Environment, root: Path | None) -> Iterator[Problem]:
    """Yield what is wrong with the environment's pin; without `root` no other file is read.

    Raises ConfigError when the file of an environment that it takes releases from is wrong.
    """
    if (release := environment.release) is None:
        return
    if variable := foreign_code_variable(release.environment):
        message = f"{variable} makes the container take code from elsewhere than its archive"
        yield Problem("release.environment", message, _PROMOTE)
    if root is not None:
        yield from _place(environment, release, root)


def _place(environment: Environment, release: Release, root: Path) -> Iterator[Problem]:
    """Yield what is not in the registry and the bucket of the environment that trains."""
    if (origin := _origin(environment, root)) is None:
        message = "leads back to itself, so nobody trains what is pinned here"
        value = environment.promoted_from
        yield Problem("promoted_from", message, "let it lead to one that has none", value)
        return
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


def _origin(environment: Environment, root: Path) -> Environment | None:
    """Return the environment that trains what this one serves; None where the way is a circle."""
    seen = set[str]()
    while source := load_source(environment, root):
        seen.add(environment.name)
        if source.name in seen:
            return None
        environment = source
    return environment
