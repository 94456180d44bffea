"""The key `organisation.package_index`: where jobs and builds of images install packages from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import StringConstraints

from shoal.settings.parsing.base import Settings
from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.network import InterfaceEndpoint, Network
from shoal.settings.sections.secrets import SecretName

# botocore 1.44.5, codeartifact DomainName and RepositoryName; the toolkit's own expression
RepositoryArn = Annotated[
    str,
    StringConstraints(
        pattern=r"^arn:aws:codeartifact:[a-z0-9-]+:[0-9]{12}:repository"
        r"/[a-z][a-z0-9-]{0,48}[a-z0-9]/[A-Za-z0-9][A-Za-z0-9._-]{1,99}$"
    ),
]
IndexUrl = Annotated[
    str,
    StringConstraints(
        pattern=r"^(https://[A-Za-z0-9.-]+|http://(127\.0\.0\.1|localhost))(:[0-9]{1,5})?"
        r"/([A-Za-z0-9._~+-]+/)*$"
    ),
]
_KEY = "organisation.package_index"


class PackageIndex(Settings):
    """Where packages come from: `codeartifact` or `url`."""

    codeartifact: RepositoryArn | None = None
    """ARN of a repository of CodeArtifact's."""
    url: IndexUrl | None = None
    """Address of a simple index; one at http:// is for this machine only."""
    secret: SecretName | None = None
    """Name of the index's secret in Secrets Manager."""

    @property
    def place(self) -> str:
        """Return where it is, which an image that was built from it depends on."""
        return self.codeartifact or self.url or ""

    @property
    def domain_arn(self) -> str:
        """Return the ARN of the domain that the repository is in: tokens are for domains."""
        place, _, path = str(self.codeartifact).partition(":repository/")
        return f"{place}:domain/{path.partition('/')[0]}"

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's loopback, which shoal-local's jobs reach."""
        return (self.url or "").startswith("http://")

    def interface_endpoints(self, network: Network) -> tuple[InterfaceEndpoint, ...]:
        """Return the services that the new VPC needs an endpoint for, as the only way to them.

        Python's packages need none of S3 (CodeArtifact user guide, "Create the Amazon S3 gateway
        endpoint"; read).
        """
        services = {
            InterfaceEndpoint.CODEARTIFACT: self.codeartifact,
            InterfaceEndpoint.CODEARTIFACT_REPOSITORIES: self.codeartifact,
            InterfaceEndpoint.SECRETS_MANAGER: self.secret,
        }
        if network.nat or network.existing:
            return ()
        known = network.interface_endpoints
        return tuple(each for each, needed in services.items() if needed and each not in known)


def named(index: PackageIndex | None) -> PackageIndex | None:
    """Return None for a section without a key, or whose only key is wrong, which is told."""
    return index if index and index.model_fields_set else None


def problems(
    index: PackageIndex | None, network: Network, region: str, *, on_aws: bool
) -> Iterator[Problem]:
    """Yield what is wrong with the key of an environment in `region`."""
    if index is None:
        return
    if bool(index.codeartifact) == bool(index.url):
        message = "has both of them" if index.url else "names no index"
        yield Problem(_KEY, message, "write one of codeartifact and url")
    if index.secret and index.codeartifact:
        message = "is for an index at a url: the job's role gets the token of CodeArtifact"
        yield Problem(f"{_KEY}.secret", message, "remove it")
    if index.is_local and on_aws:
        message = "is this machine, which no job on AWS reaches"
        advice = "name an index at https://, or write `target: local`"
        yield Problem(f"{_KEY}.url", message, advice, related=("target",))
    place = (index.codeartifact or f":::{region}").split(":")[3]
    if place != region and index.interface_endpoints(network):
        message = f"is out of reach: a VPC endpoint in {region} leads to no other region"
        advice = f"name a repository in {region}, or set network.nat: true"
        yield Problem(f"{_KEY}.codeartifact", message, advice, related=("region", "network"))
