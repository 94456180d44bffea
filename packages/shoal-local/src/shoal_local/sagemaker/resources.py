"""What every kind of resource has: a row of `kinds`, Describe, List and Delete by name, and tags by
its ARN; and the checks that what a request names (roles, subnets, groups, keys) is there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from botocore.exceptions import ClientError

from shoal_local.context import RoleCredentials
from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid, not_found
from shoal_local.sagemaker.shapes import Document
from shoal_local.sagemaker.store import Listing
from shoal_local.tables import read_table


@dataclass(frozen=True)
class Kind:
    """One kind of resource; `store` is its name in ARNs and in the store."""

    store: str
    noun: str
    name_key: str
    arn_key: str
    status_key: str
    missing: Sequence[str]
    taken: Sequence[str]
    listing: Listing
    event: str = ""
    log_group: str = ""


def _kind(store: str, row: Mapping[str, Any]) -> Kind:
    words, noun = dict(row), row["noun"]
    keys = {f"{word.lower()}_key": f"{noun}{word}" for word in ("Name", "Arn", "Status")}
    names = {"summary": f"{noun}Summary", "name": f"{noun}Name", "status": f"{noun}Status"}
    listing = Listing(**(names | words.pop("list")))
    return Kind(store, listing=listing, **keys, **words)


KINDS: Mapping[str, Kind] = {
    store: _kind(store, row)
    for store, row in read_table(Path(__file__).with_suffix(".yaml"))["kinds"].items()
}


class Resources:
    """The account's resources of one kind. `verbs` are their operations, such as DescribeModel."""

    kind: ClassVar[Kind]
    verbs: ClassVar[tuple[str, ...]] = ("create", "describe", "list", "delete")

    def __init__(self, core: Core) -> None:
        self._core = core

    def keep(self, request: Document, **members: Any) -> Document:
        """Return a new document of the request's members and others; raise if the name is taken."""
        name, now = request[self.kind.name_key], names.now()
        document = {
            **{key: value for key, value in request.items() if key != "Tags"},
            "_name": name,
            "_tags": request.get("Tags", []),
            self.kind.arn_key: self._core.arn(self.kind.store, name),
            "CreationTime": now,
            "LastModifiedTime": now,
            **members,
        }
        self._core.store.create(self.kind.store, document["_name"], document, self._taken)
        return document

    def find(self, name_or_arn: str) -> Document:
        """Return a resource; raise the kind's error if it does not exist."""
        name = names.name_in(self._core.context, self.kind.store, name_or_arn)
        document = self._core.store.get(self.kind.store, name)
        if document is None:
            arn = name if name.startswith("arn:") else self._core.arn(self.kind.store, name)
            raise self._error(self.kind.missing, name, arn)
        return document

    def describe(self, request: Document) -> Document:
        return self.find(request[self.kind.name_key])

    def list(self, request: Document) -> Document:
        """Return a page."""
        listing, entry = self.kind.listing, partial(self._entry, request)
        return self._core.store.listed(
            self.kind.store, lambda each: listing.page(each, request, entry)
        )

    def _entry(self, request: Document, document: Document) -> Document | None:
        """Return the entry of a document in the list that is requested; None leaves it out."""
        return document

    def delete(self, request: Document) -> Document:
        self._core.store.delete(self.kind.store, self.describe(request)["_name"])
        return {}

    def _emit(self, document: Document, detail: Document) -> None:
        self._core.emit(self.kind.event, detail, document[self.kind.arn_key])

    def _taken(self, existing: Document) -> AwsError:
        name = existing.get(self.kind.name_key, "")
        return self._error(self.kind.taken, name, existing[self.kind.arn_key])

    @staticmethod
    def _error(code_and_words: Sequence[str], name: str, arn: str) -> AwsError:
        code, words = code_and_words
        return AwsError(code, words.format(name=name, arn=arn))


class Tags:
    """Tags of the documents: `_tags`, a list of Key/Value as the API has it."""

    def __init__(self, core: Core) -> None:
        self._store = core.store

    def _find(self, arn: str) -> tuple[str, str]:
        """Return the kind and the name of a resource, both of which are in its ARN."""
        kind, _, name = arn.lower().rpartition(":")[2].partition("/")
        if kind == "pipeline" and "/execution/" in name:
            kind, name = "pipeline-execution", name.replace("/execution/", "/", 1)
        document = self._store.get(kind, name) if kind in KINDS else None
        if document is None or document[KINDS[kind].arn_key].lower() != arn.lower():
            raise not_found(f"Resource {arn} does not exist.")
        return kind, document["_name"]

    def _change(self, arn: str, added: list[Document], removed_keys: list[str]) -> list[Document]:
        kind, name = self._find(arn)

        def edit(document: Document) -> None:
            tags = {tag["Key"]: tag["Value"] for tag in [*document.get("_tags", []), *added]}
            document["_tags"] = [
                {"Key": key, "Value": value}
                for key, value in tags.items()
                if key not in removed_keys
            ]

        return list(self._store.change(kind, name, edit)["_tags"])

    def add(self, request: Document) -> Document:
        return {"Tags": self._change(request["ResourceArn"], request["Tags"], [])}

    def list(self, request: Document) -> Document:
        return {"Tags": self._store.read(*self._find(request["ResourceArn"])).get("_tags", [])}

    def delete(self, request: Document) -> Document:
        self._change(request["ResourceArn"], [], request["TagKeys"])
        return {}


_MAX_SESSION_NAME = 64


def assume(core: Core, role_arn: str, name: str) -> RoleCredentials:
    """Return credentials for a resource of this name; raise ValidationException without a role."""
    try:
        return core.context.role_credentials(role_arn, f"SageMaker-{name}"[:_MAX_SESSION_NAME])
    except AwsError as error:
        raise invalid(
            f"Could not assume role {role_arn}. Please ensure that the role exists and allows"
            f" principal 'sagemaker.amazonaws.com' to assume the role. ({error.message})"
        ) from error


def check_network(core: Core, vpc: Document | None) -> None:
    """Raise ValidationException if a subnet or security group of a VpcConfig does not exist.

    Containers get no interface in them: their network has the AWS endpoint only.
    """
    if vpc:
        ec2 = core.context.clients("ec2", None)
        _check_exists(ec2.describe_subnets, SubnetIds=vpc["Subnets"])
        _check_exists(ec2.describe_security_groups, GroupIds=vpc["SecurityGroupIds"])


def check_keys(core: Core, *keys: str | None) -> None:
    """Raise ValidationException if a KMS key (id, ARN or alias) does not exist."""
    for key in filter(None, keys):
        _check_exists(core.context.clients("kms", None).describe_key, KeyId=key)


def _check_exists(describe: Callable[..., Any], **arguments: Any) -> None:
    try:
        describe(**arguments)
    except ClientError as error:
        raise invalid(error.response["Error"]["Message"]) from error
