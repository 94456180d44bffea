"""The environments in other accounts that take releases from an environment, and what they read.

`promoted_from` says where an environment's releases come from. Followed back to the environment
that trains, it says whose registry, bucket and key a serving environment reads. So the stacks of
the training environment are made with every file that leads to it. An environment to which releases
are copied has a registry of its own, and the environments that are promoted from there may read
that one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from config.loader import environment_names, load_environment
from config.names import SEALED, SERVING_PROOF, Names
from config.release import COPIES, Release, Replaced
from config.rules import is_placeholder_account
from config.settings import Environment

_PLACES = {
    True: rf"{SEALED}/[0-9a-f]{{64}}/model\.tar\.gz",
    False: rf"{COPIES}/[\w./=-]+/model\.tar\.gz",
}
"""Where archives lie: in an environment that trains, and in one to which releases are copied.

No character is one that policies expand.
"""


@dataclass(frozen=True)
class Consumer:
    """An environment in another account that serves what was trained here."""

    environment: str
    account: str
    serving_role_arn: str
    """The roles that read archives when containers start there, as a pattern."""
    proof_role_arn: str
    """The role that reads the pinned archive when a deployment is proven there."""
    versions: tuple[str, ...] = ()
    """ARNs of the versions here that its file pins and replaced, the pinned one first."""
    archives: tuple[str, ...] = ()
    """Keys of their archives in the artifact bucket here."""


def consumers_of(environment: Environment, root: Path) -> tuple[Consumer, ...]:
    """Return the consumers by name, without those in its own account, where IAM alone decides,
    and without `left_out_of`.

    Where nothing is trained, and the pinned release is no copy, only those count that pin or
    replaced a copy from here. Raises ConfigError when the file of any environment is wrong: it
    might take releases from here.
    """
    consumers = tuple(
        _consumer(each, Names(environment))
        for each in _in_other_accounts(environment, root)
        if not _is_left_out(each, environment)
    )
    is_source = environment.promoted_from is None or (
        environment.release is not None and environment.release.copied_from is not None
    )
    return consumers if is_source else tuple(each for each in consumers if each.versions)


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
    """Return the environments of other accounts, by name, that lead to this one."""
    environments = {
        name: load_environment(name, root)
        for name in environment_names(root)
        if name != environment.name
    }
    environments[environment.name] = environment
    return [
        each
        for name, each in sorted(environments.items())
        if each.account != environment.account and environment.name in _sources(name, environments)
    ]


def _consumer(environment: Environment, source: Names) -> Consumer:
    """Return the consumer with what it reads in the registry and the artifact bucket of `source`.

    What lies elsewhere, such as a copy, is not for `source` to share.
    """
    own, release = Names(environment), environment.release
    group = source.arn("sagemaker", f"model-package/{source.model_package_group}/")
    named: tuple[Release | Replaced, ...] = (release, *release.replaces) if release else ()
    pinned = [each for each in named if each.model_package_arn.startswith(group)]
    archive = re.compile(
        f"s3://{re.escape(source.bucket('artifacts'))}/({_PLACES[source.environment.promoted_from is None]})",  # noqa: E501
        re.ASCII,
    )
    return Consumer(
        environment.name,
        environment.account,
        own.serving_role_arn,
        own.role_arn(SERVING_PROOF),
        versions=tuple(each.model_package_arn for each in pinned),
        archives=tuple(
            match[1] for each in pinned if (match := archive.fullmatch(each.model_data_url))
        ),
    )


def _sources(name: str, environments: dict[str, Environment]) -> tuple[str, ...]:
    """Return the environments on the way to this one; none where the way is a circle."""
    seen: list[str] = []
    source: str | None = name
    while source is not None and source not in seen:
        seen.append(source)
        source = environments[source].promoted_from
    return () if source is not None else tuple(seen[1:])
