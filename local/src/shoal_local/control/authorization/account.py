"""What the emulated account knows of its resources and principals, read from the services' own
state: encryption keys, tags, networks, resource policies, and the policies of roles and users.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moto.backends import get_backend
from moto.core.exceptions import ServiceException
from moto.ecr.models import ecr_backends
from moto.iam.models import ManagedPolicy, iam_backends
from moto.kms.models import kms_backends
from moto.s3.models import s3_backends
from moto.sns.models import sns_backends
from moto.sqs.models import sqs_backends

from shoal_local.control.authorization.evaluator import Policies, Policy
from shoal_local.control.authorization.iam_request import ContextValue, Question, account_of
from shoal_local.control.functions.service import Functions
from shoal_local.errors import AwsError

PARTITION = "aws"
Tags = Mapping[str, str]


@dataclass(frozen=True)
class AccountState:
    """One account in one region.

    `sagemaker(operation, request)` answers SageMaker's operations; AwsError for what is not there.
    `played(number)` is the state of an account of this emulator, None where nobody plays it.
    `is_scaled(endpoint)`: whether Application Auto Scaling has a target of the endpoint.
    """

    account: str
    region: str
    functions: Functions
    sagemaker: Callable[[str, dict[str, Any]], Mapping[str, Any]]
    played: Callable[[str], AccountState | None]
    is_scaled: Callable[[str], bool]

    def owner(self, resource: str) -> str:
        """The account that has the resource: the one in its ARN, of a bucket whoever made it, else
        this one.
        """
        if resource.startswith("arn:aws:s3:::"):
            return _owner_of_bucket(resource.split(":")[5].partition("/")[0]) or self.account
        account = account_of(resource)
        return account if account.isdigit() else self.account

    def _bucket(self, name: str) -> Any:
        owner = _owner_of_bucket(name)
        return s3_backends[owner][PARTITION].buckets.get(name) if owner else None

    def key_of_bucket(self, bucket: str) -> str | None:
        key = (
            self._encryption(bucket)
            .get("ApplyServerSideEncryptionByDefault", {})
            .get("KMSMasterKeyID")
        )
        return self._key_arn(str(key), _owner_of_bucket(bucket)) if key else None

    def has_bucket_key(self, bucket: str) -> bool:
        return str(self._encryption(bucket).get("BucketKeyEnabled", "")).lower() == "true"

    def _encryption(self, bucket: str) -> Mapping[str, Any]:
        """The rule by which a bucket encrypts."""
        found = self._bucket(bucket)
        rule = (found.encryption or {}).get("Rule", {}) if found else {}
        return rule if isinstance(rule, Mapping) else {}

    def key_of_object(self, bucket: str, key: str) -> str | None:
        found = self._bucket(bucket)
        stored = found.keys.get(key) if found else None
        named = getattr(stored, "kms_key_id", None)
        return (
            self._key_arn(str(named), _owner_of_bucket(bucket))
            if named
            else self.key_of_bucket(bucket)
            if stored is not None
            else None
        )

    def key_of_queue(self, name: str) -> str | None:
        queue = sqs_backends[self.account][self.region].queues.get(name)
        key = getattr(queue, "kms_master_key_id", None)
        return self.key_arn(str(key)) if key else None

    def key_of_endpoint_config(self, name: str) -> str | None:
        try:
            key = self.sagemaker("DescribeEndpointConfig", {"EndpointConfigName": name}).get(
                "KmsKeyId"
            )
        except AwsError:
            return None
        return self.key_arn(str(key)) if key else None

    def key_arn(self, key: str) -> str:
        return self._key_arn(key, None)

    def _key_arn(self, key: str, account: str | None) -> str:
        """A key that is not named by its ARN is one of `account`, by default of this one."""
        backend = kms_backends[account_of(key) or account or self.account][self.region]
        alias = backend.get_alias_name(key)
        # moto fails on an alias that there is not, instead of finding nothing.
        found = (
            backend.get_key_id_from_alias(alias)
            if alias.startswith("alias/")
            else backend.get_key_id(key)
        )
        return str(backend.keys[found].arn) if found in backend.keys else key

    def vpc_of(self, id_: str) -> str | None:
        backend = _ec2(self.account, self.region)
        subnets = {
            subnet.id: subnet.vpc_id
            for zone in backend.subnets.values()
            for subnet in zone.values()
        }
        groups = {
            group.id: group.vpc_id for vpc in backend.groups.values() for group in vpc.values()
        }
        tables = {table.id: table.vpc_id for table in backend.route_tables.values()}
        return next(
            (str(known[id_]) for known in (subnets, groups, tables) if known.get(id_)), None
        )

    def tags(self, arn: str) -> Tags:
        owner = self.owner(arn)
        if owner != self.account:
            elsewhere = self.played(owner)
            return elsewhere.tags(arn) if elsewhere else {}
        service = arn.split(":")[2] if arn.startswith("arn:") else ""
        readers: Mapping[str, Callable[[str], Tags]] = {
            "sagemaker": self._sagemaker,
            "ec2": self._ec2,
            "iam": self._role_tags,
        }
        try:
            return readers[service](arn) if service in readers else {}
        except (AwsError, ServiceException, KeyError):
            return {}

    def _sagemaker(self, arn: str) -> Tags:
        listed = self.sagemaker("ListTags", {"ResourceArn": arn}).get("Tags", [])
        return {str(tag["Key"]): str(tag["Value"]) for tag in listed}

    def _ec2(self, arn: str) -> Tags:
        return dict(_ec2(self.account, self.region).tags.get(arn.rpartition("/")[2], {}))

    def _role_tags(self, arn: str) -> Tags:
        role = self._role(arn.rpartition("/")[2])
        listed: Any = (role.tags if role else None) or []
        tags = listed.values() if isinstance(listed, Mapping) else listed
        return {str(tag["Key"]): str(tag["Value"]) for tag in tags}

    def policies(
        self, principal_arn: str, question: Question, session: Policy | None = None
    ) -> Policies:
        """What applies to this principal, a role session or user, and to the resource of the
        question.
        """
        identity, boundary = self._of_principal(principal_arn)
        return Policies(identity, boundary, self.policy_on(question), session)

    def policy_on(self, question: Question) -> Policy | None:
        """The policy on the question's resource, in whichever account it is.

        Without one, a repository is its own account's only; the evaluator takes those of accounts
        that nobody plays for AWS's, which are open.
        """
        owner = self.owner(question.resource)
        elsewhere = self if owner == self.account else self.played(owner)
        found = elsewhere.resource_policy(question) if elsewhere else None
        return (
            _only_of(owner) if found is None and elsewhere and question.service == "ecr" else found
        )

    def _role(self, name: str) -> Any:
        return next(
            (
                role
                for role in iam_backends[self.account][PARTITION].roles.values()
                if role.name == name
            ),
            None,
        )

    def keys_of_caller(self, caller_arn: str) -> dict[str, ContextValue]:
        """`aws:PrincipalArn` where the caller's ARN does not tell it: a role's ARN has the role's
        path, that of its session has not.
        """
        kind, _, name = caller_arn.split(":")[5].partition("/")
        role = self._role(name.partition("/")[0]) if kind == "assumed-role" else None
        return {"aws:PrincipalArn": str(role.arn)} if role else {}

    def _of_principal(self, principal_arn: str) -> tuple[Mapping[str, Policy], Policy | None]:
        backend = iam_backends[self.account][PARTITION]
        kind, _, name = principal_arn.split(":")[5].partition("/")
        if kind == "assumed-role":
            role = self._role(name.partition("/")[0])
            holders, boundary = (
                [role] if role else [],
                getattr(role, "permissions_boundary_arn", None),
            )
        else:
            user = next(
                (each for each in backend.users.values() if each.arn == principal_arn), None
            )
            groups = (
                [group for group in backend.groups.values() if user in group.users] if user else []
            )
            holders, boundary = (
                [*([user] if user else []), *groups],
                getattr(user, "permissions_boundary_arn", None),
            )
        identity = {name: document for holder in holders for name, document in _held(holder)}
        return identity, _in_force(
            backend.managed_policies[boundary]
        ) if boundary in backend.managed_policies else None

    def resource_policy(self, question: Question) -> Policy | None:
        """The policy on the resource itself, where its service has such policies and the resource
        exists.
        """
        readers: Mapping[str, Callable[[str], Any]] = {
            "s3": self._bucket_policy,
            "kms": self._key_policy,
            "sqs": self._queue_policy,
            "sns": self._topic_policy,
            "ecr": self._repository_policy,
            "lambda": self._function_policy,
            "sts": self._trust_policy,
            "sagemaker": self._group_policy,
        }
        read = readers.get(question.service)
        found = read(question.resource) if read and question.resource != "*" else None
        document = _document(found) if found else None
        return document if document and document.get("Statement") else None

    def _bucket_policy(self, arn: str) -> Any:
        bucket = self._bucket(arn.split(":")[5].partition("/")[0])
        return bucket.policy if bucket else None

    def _key_policy(self, arn: str) -> Any:
        key = kms_backends[self.account][self.region].keys.get(arn.rpartition("/")[2])
        return key.policy if key else None

    def _queue_policy(self, arn: str) -> Any:
        queue = sqs_backends[self.account][self.region].queues.get(arn.rpartition(":")[2])
        return queue.policy if queue else None

    def _topic_policy(self, arn: str) -> Any:
        topic = sns_backends[self.account][self.region].topics.get(arn)
        return topic.policy if topic else None

    def _repository_policy(self, arn: str) -> Any:
        repository = ecr_backends[self.account][self.region].repositories.get(arn.partition("/")[2])
        return repository.policy if repository and repository.arn == arn else None

    def _function_policy(self, arn: str) -> Any:
        try:
            return self.functions.get(arn).policy_document
        except AwsError:
            return None

    def _trust_policy(self, arn: str) -> Any:
        role = self._role(arn.rpartition("/")[2])
        return role.assume_role_policy_document if role else None

    def _group_policy(self, arn: str) -> Any:
        """The policy of a model package group is about the group and its versions."""
        kind, _, path = arn.split(":", 5)[5].partition("/")
        if kind not in {"model-package-group", "model-package"}:
            return None
        try:
            return self.sagemaker(
                "GetModelPackageGroupPolicy", {"ModelPackageGroupName": path.partition("/")[0]}
            )["ResourcePolicy"]
        except AwsError:
            return None


def _owner_of_bucket(name: str) -> str | None:
    """Buckets have one namespace for all accounts."""
    partition_and_account = s3_backends.bucket_accounts.get(name)
    return partition_and_account[1] if partition_and_account else None


def _only_of(account: str) -> Policy:
    """The policy of a repository that has none."""
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"AWS": account}, "Action": "ecr:*"}],
    }


def _held(holder: Any) -> list[tuple[str, Policy]]:
    """Inline and managed policies of a role, user or group, by name."""
    managed = {policy.name: _in_force(policy) for policy in holder.managed_policies.values()}
    return [
        *managed.items(),
        *((name, _document(document)) for name, document in holder.policies.items()),
    ]


def _in_force(policy: ManagedPolicy) -> Policy:
    """The default version of a managed policy."""
    return _document(next(version.document for version in policy.versions if version.is_default))


def _document(written: Any) -> Policy:
    return dict(written if isinstance(written, Mapping) else json.loads(written))


def _ec2(account: str, region: str) -> Any:
    """moto's EC2.

    Not imported with this module: it reads a hundred files of instance types, the larger part of an
    emulator's start.
    """
    return get_backend("ec2")[account][region]
