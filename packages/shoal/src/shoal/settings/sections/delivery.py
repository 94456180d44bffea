"""The section `delivery` of an environment file: which repository's workflows may deploy the
environment.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from shoal.settings.parsing.base import Settings

# With the numbers, the form of GitHub's immutable subject claims:
# https://docs.github.com/en/actions/concepts/security/openid-connect
Repository = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9-]*(@[0-9]+)?/[A-Za-z0-9._-]+(@[0-9]+)?$", max_length=200
    ),
]


class Delivery(Settings):
    """A role that GitHub's workflows assume without a secret; see `shoal docs gitops`."""

    repository: Repository
    """The repository on GitHub, as its tokens name it: owner/name, or owner@id/name@id where its
    subject claims are immutable.
    """
    create_provider: bool = True
    """False where the account has GitHub's identity provider already: an account can have it once
    only.
    """
