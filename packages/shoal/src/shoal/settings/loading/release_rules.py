"""The rules of the sections `release` and `promoted_from`."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.settings.parsing.errors import Problem
from shoal.settings.settings import Environment


def _version(environment: Environment) -> Iterator[Problem]:
    release = environment.release
    if release and not release.model_package_arn.endswith(f"/{release.model_package_version}"):
        message = (
            "is not the version that model_package_arn names,"
            f" {release.model_package_arn.rpartition('/')[2]}"
        )
        key, related = "release.model_package_version", ("release.model_package_arn",)
        yield Problem(
            key,
            message,
            "let `shoal promote` write the whole file",
            release.model_package_version,
            related,
        )


def _promoted_from(environment: Environment) -> Iterator[Problem]:
    if environment.promoted_from == environment.name:
        message = "an environment cannot take releases from itself"
        yield Problem("promoted_from", message, "name the one before it", environment.promoted_from)


RULES = (_version, _promoted_from)
