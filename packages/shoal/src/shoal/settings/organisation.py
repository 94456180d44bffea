"""The section `organisation` of an environment file: what a customer's organisation prescribes, or
has already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from shoal.settings.package_index import PackageIndex, named
from shoal.settings.parsing.base import Settings
from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.channels import KeyArn

DEFAULT_QUALIFIER = "hnb659fds"
"""The CDK's default; part of the names of everything that `cdk bootstrap` makes."""

# aws-cdk 2, bootstrap-template.yaml: at most ten characters; a bucket's name has no others
Qualifier = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,9}$")]
# IAM takes more characters; ARNs with these need no quotes in a policy or a shell
RolePath = Annotated[str, StringConstraints(pattern=r"^/([A-Za-z0-9+=,.@_-]+/)*$", max_length=512)]
# S3 user guide, "General purpose bucket naming rules". What people upload must be no code of a
# deployment (cdk-), nor what `destroy` empties (shoal-).
_RESERVED = ("cdk-", "shoal-", "xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_ENDS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
BucketName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
RolePrefix = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+=,.@_-]*$", max_length=32)]


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
    package_index: Annotated[PackageIndex | None, AfterValidator(named)] = None
    """Where trainings and builds of images install from."""

    @property
    def outputs(self) -> dict[str, str]:
        """Return what the data stack tells of it, so that a deployment with another is refused."""
        path = None if self.role_path == "/" else self.role_path
        told = {
            "OrganisationKeyArn": self.kms_key_arn,
            "RolePath": path,
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


def toolkit_stack(qualifier: str) -> str:
    """Return the name of the bootstrap's stack where Shoal makes it: never another qualifier's."""
    return "CDKToolkit" if qualifier == DEFAULT_QUALIFIER else f"CDKToolkit-{qualifier}"


def bootstrap_version(qualifier: str) -> str:
    """Return the name of the parameter that has the bootstrap's version."""
    return f"/cdk-bootstrap/{qualifier}/version"
