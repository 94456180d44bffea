"""The section `organisation` of an environment file: what a customer's organisation prescribes, or
has already. Its key `package_index` says where jobs and builds of images install packages from.
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from shoal.settings.parsing.base import Settings
from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.channels import KeyArn
from shoal.settings.sections.network import InterfaceEndpoint, Network
from shoal.settings.sections.secrets import SecretName

# botocore 1.44.5, codeartifact DomainName and RepositoryName; the toolkit's own expression
RepositoryArn = Annotated[
    str,
    Field(
        pattern=r"^arn:aws:codeartifact:[a-z0-9-]+:[0-9]{12}:repository"
        r"/[a-z][a-z0-9-]{0,48}[a-z0-9]/[A-Za-z0-9][A-Za-z0-9._-]{1,99}$"
    ),
]
IndexUrl = Annotated[
    str,
    Field(
        pattern=r"^(https://[A-Za-z0-9.-]+|http://(127\.0\.0\.1|localhost))(:[0-9]{1,5})?"
        r"/([A-Za-z0-9._~+-]+/)*$"
    ),
]
_INDEX = "organisation.package_index"
DEFAULT_QUALIFIER = "hnb659fds"
"""The CDK's default; part of the names of everything that `cdk bootstrap` makes."""

# aws-cdk 2, bootstrap-template.yaml: at most ten characters; a bucket's name has no others
Qualifier = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,9}$")]
# IAM takes more characters; ARNs with these need no quotes in a policy or a shell
RolePath = Annotated[str, Field(pattern=r"^/([A-Za-z0-9+=,.@_-]+/)*$", max_length=512)]
# S3 user guide, "General purpose bucket naming rules". What people upload must be no code of a
# deployment (cdk-), nor what `destroy` empties (shoal-).
_RESERVED = ("cdk-", "shoal-", "xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_ENDS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
BucketName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
RolePrefix = Annotated[str, Field(pattern=r"^[A-Za-z0-9+=,.@_-]*$", max_length=32)]


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

    @property
    def services(self) -> tuple[InterfaceEndpoint, ...]:
        """Return what a VPC without another way needs endpoints for.

        Python's packages need none of S3 (CodeArtifact user guide, "Create the Amazon S3 gateway
        endpoint"; read).
        """
        services = {
            InterfaceEndpoint.CODEARTIFACT: self.codeartifact,
            InterfaceEndpoint.CODEARTIFACT_REPOSITORIES: self.codeartifact,
            InterfaceEndpoint.SECRETS_MANAGER: self.secret,
        }
        return tuple(each for each, needed in services.items() if needed)


def _named(index: PackageIndex | None) -> PackageIndex | None:
    """Return None for a section without a key, or whose only key is wrong, which is told."""
    return index if index and index.model_fields_set else None


class Organisation(Settings):
    """What the organisation prescribes, or has already."""

    bootstrap_qualifier: Qualifier = DEFAULT_QUALIFIER
    """The qualifier that the CDK is bootstrapped with in the account."""
    role_path: RolePath = "/"
    """The IAM path of every role that is made here."""
    role_prefix: RolePrefix = ""
    """What the names of these roles begin with, before `shoal-`."""
    kms_key_arn: KeyArn | None = None
    """A key of the same account and region, in place of Shoal's own; `shoal plan` prints what its
    policy must allow.
    """
    data_bucket: BucketName | None = None
    """A bucket of the same account and region, in place of Shoal's own for datasets; it is never
    made, changed, emptied or deleted.
    """
    package_index: Annotated[PackageIndex | None, AfterValidator(_named)] = None
    """Where trainings and builds of images install from."""

    @property
    def outputs(self) -> dict[str, str]:
        """Return what the data stack tells of it, so that a deployment with another is refused."""
        told = {
            "OrganisationKeyArn": self.kms_key_arn,
            "RolePath": "" if self.role_path == "/" else self.role_path,
            "RolePrefix": self.role_prefix,
        }
        return {name: value for name, value in told.items() if value}


def problems(
    organisation: Organisation,
    region: str,
    account: str,
    file_system: object | None,
) -> Iterator[Problem]:
    """Yield what is wrong with the section of an environment in `region` of `account`."""
    key, bucket = "organisation.data_bucket", organisation.data_bucket
    if bucket and (bucket.startswith(_RESERVED) or bucket.endswith(_RESERVED_ENDS)):
        words = ", ".join((*(f"{each}..." for each in _RESERVED), *_RESERVED_ENDS))
        message = f"is a name that AWS, the CDK or Shoal gives ({words})"
        yield Problem(key, message, "name a general purpose bucket of your own")
    if bucket and (".." in bucket or bucket.replace(".", "").isdigit()):
        message = "is no name that S3 takes: two dots follow each other, or it is an address"
        yield Problem(key, message, "correct it")
    if bucket and file_system:
        message = "would get notifications of FSx for Lustre, and is not changed from here"
        advice = "remove it, or file_system with data.input_mode: FSx"
        yield Problem(key, message, advice, related=("file_system",))
    arn = organisation.kms_key_arn
    if arn and arn.split(":")[3:5] != [region, account]:
        message = f"is not in {region} of account {account}, whose logs and topics it encrypts"
        advice = "name a key that is there, for example a replica"
        yield Problem("organisation.kms_key_arn", message, advice, related=("region", "account"))


def index_problems(
    index: PackageIndex | None, network: Network, region: str, *, on_aws: bool
) -> Iterator[Problem]:
    """Yield what is wrong with the key of an environment in `region`."""
    if index is None:
        return
    if bool(index.codeartifact) == bool(index.url):
        message = "has both of them" if index.url else "names no index"
        yield Problem(_INDEX, message, "write one of codeartifact and url")
    if index.secret and index.codeartifact:
        message = "is for an index at a url: the job's role gets the token of CodeArtifact"
        yield Problem(f"{_INDEX}.secret", message, "remove it")
    if index.is_local and on_aws:
        message = "is this machine, which no job on AWS reaches"
        advice = "name an index at https://, or write `target: local`"
        yield Problem(f"{_INDEX}.url", message, advice, related=("target",))
    place = (index.codeartifact or f":::{region}").split(":")[3]
    if place != region and not network.has_way:
        message = f"is out of reach: a VPC endpoint in {region} leads to no other region"
        advice = f"name a repository in {region}, or set network.nat: true"
        yield Problem(f"{_INDEX}.codeartifact", message, advice, related=("region", "network"))


def toolkit_stack(qualifier: str) -> str:
    """Return the name of the bootstrap's stack where Shoal makes it: never another qualifier's."""
    return "CDKToolkit" if qualifier == DEFAULT_QUALIFIER else f"CDKToolkit-{qualifier}"


def bootstrap_version(qualifier: str) -> str:
    """Return the name of the parameter that has the bootstrap's version."""
    return f"/cdk-bootstrap/{qualifier}/version"
