"""The section `delivery` of an environment file: which repository's workflows on GitHub, or which
project's pipelines on GitLab, may deploy the environment.
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from shoal.settings.parsing.base import Settings
from shoal.settings.parsing.errors import Problem

# With the numbers, the form of GitHub's immutable subject claims:
# https://docs.github.com/en/actions/concepts/security/openid-connect
Repository = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9-]*(@[0-9]+)?/[A-Za-z0-9._-]+(@[0-9]+)?$", max_length=200
    ),
]
# No `*`, `?` and `:`: a subject has them as signs, and is compared as a whole
Project = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+$", max_length=255),
]
Branch = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$", max_length=200)]
# IAM takes a provider's URL without a port (user guide, "Create an OpenID Connect identity
# provider")
Host = Annotated[str, Field(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)+$", max_length=200)]


class GitLab(Settings):
    """A role that GitLab's pipelines assume without a secret; see `shoal docs gitops`."""

    project: Project
    """The project's full path."""
    host: Host = "gitlab.com"
    """The instance, which AWS must reach by https."""
    branch: Branch = "main"
    """The protected branch whose pipelines may deploy."""


class Delivery(Settings):
    """A role that workflows assume without a secret; see `shoal docs gitops`."""

    repository: Repository | None = None
    """The repository on GitHub, as its tokens name it: owner/name, or owner@id/name@id where its
    subject claims are immutable.
    """
    gitlab: GitLab | None = None
    """The project on GitLab, in place of a repository on GitHub."""
    create_provider: bool = True
    """False where the account has the host's identity provider already: an account can have it
    once only.
    """

    @property
    def host(self) -> str:
        """GitHub, or the host of GitLab."""
        return self.gitlab.host if self.gitlab else "GitHub"

    @property
    def issuer(self) -> str:
        """The host that signs the tokens."""
        return self.gitlab.host if self.gitlab else "token.actions.githubusercontent.com"

    def subject(self, workflow_environment: str) -> str:
        """Return what a token must name as its subject. GitLab's has project and branch only, and
        STS reads no other claim of it: GitLab documentation, "ID token authentication"; AWS,
        "Available keys for AWS OIDC federation".
        """
        if self.gitlab is None:
            return f"repo:{self.repository}:environment:{workflow_environment}"
        return f"project_path:{self.gitlab.project}:ref_type:branch:ref:{self.gitlab.branch}"


def problems(delivery: Delivery | None) -> Iterator[Problem]:
    """Yield that the section names no host, or two."""
    if delivery and (delivery.repository is None) == (delivery.gitlab is None):
        both = "names GitHub and GitLab" if delivery.gitlab else "names neither GitHub nor GitLab"
        advice = "keep one of repository: owner/name and gitlab: {project: group/name}"
        yield Problem("delivery", both, advice)
