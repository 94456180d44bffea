"""The resources and principals of an account, read from the services' own state.

These are encryption keys, tags, networks, resource policies, and the policies of roles and users.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

from moto.backends import get_backend
from moto.core.exceptions import ServiceException
from moto.ecr.models import ecr_backends
from moto.iam.models import ManagedPolicy
from moto.kms.models import kms_backends
from moto.s3.models import s3_backends
from moto.secretsmanager.models import secretsmanager_backends
from moto.sns.models import sns_backends
from moto.sqs.models import sqs_backends

from shoal_local.control.authorization.evaluator import Policy
from shoal_local.control.functions.service import Functions
from shoal_local.control.http.protocol import ApiCall, ContextValue, Question, account_of
from shoal_local.control.identity.identity import (
    PARTITION,
    iam_of,
    role_named,
    role_of_session,
    with_arn,
)
from shoal_local.control.identity.policy_guards import stored_key
from shoal_local.errors import AwsError

Tags = Mapping[str, str]


@dataclass(frozen=True)
class AccountState:
    """One account in one region.

    `sagemaker(operation, request)` answers SageMaker's operations, with AwsError for a resource
    that does not exist. `state_of(number)` returns the state of an account of this emulator, None
    for any other. `is_scaled(endpoint)` returns whether Application Auto Scaling has a target of
    the endpoint.
    """

    account: str
    region: str
    functions: Functions
    sagemaker: Callable[[str, dict[str, Any]], Mapping[str, Any]]
    state_of: "Callable[[str], AccountState | None]"
    is_scaled: Callable[[str], bool]

    def owner(self, resource: str) -> str:
        """Return the account in the ARN, or of the bucket; without either, this account."""
        if resource.startswith("arn:aws:s3:::"):
            return owner_of_bucket(resource.split(":")[5].partition("/")[0]) or self.account
        account = account_of(resource)
        return account if account.isdigit() else self.account

    def _bucket(self, name: str) -> Any:
        owner = owner_of_bucket(name)
        return s3_backends[owner][PARTITION].buckets.get(name) if owner else None

    def key_of_bucket(self, bucket: str) -> str | None:
        default = self._encryption(bucket).get("ApplyServerSideEncryptionByDefault", {})
        key = default.get("KMSMasterKeyID")
        return self.key_arn(str(key), owner_of_bucket(bucket)) if key else None

    def has_bucket_key(self, bucket: str) -> bool:
        return str(self._encryption(bucket).get("BucketKeyEnabled", "")).lower() == "true"

    def _encryption(self, bucket: str) -> Mapping[str, Any]:
        """Return the default encryption rule of a bucket, {} when it has none."""
        stored = self._bucket(bucket)
        rule = (stored.encryption or {}).get("Rule", {}) if stored else {}
        return rule if isinstance(rule, Mapping) else {}

    def key_of_object(self, bucket: str, key: str) -> str | None:
        stored_bucket = self._bucket(bucket)
        stored_object = stored_bucket.keys.get(key) if stored_bucket else None
        if stored_object is None:
            return None
        key_id = getattr(stored_object, "kms_key_id", None)
        if key_id:
            return self.key_arn(str(key_id), owner_of_bucket(bucket))
        return self.key_of_bucket(bucket)

    def key_of_queue(self, name: str) -> str | None:
        queue = sqs_backends[self.account][self.region].queues.get(name)
        key = getattr(queue, "kms_master_key_id", None)
        return self.key_arn(str(key)) if key else None

    def key_of_endpoint_config(self, name: str) -> str | None:
        try:
            config = self.sagemaker("DescribeEndpointConfig", {"EndpointConfigName": name})
        except AwsError:
            return None
        key = config.get("KmsKeyId")
        return self.key_arn(str(key)) if key else None

    def key_arn(self, key: str, account: str | None = None) -> str:
        """Return the ARN of a key of `account` (None: this one) by its id, ARN or alias."""
        stored = stored_key(key, account_of(key) or account or self.account, self.region)
        return str(stored.arn) if stored else key

    def secret_arn(self, name: str) -> str | None:
        secret = secretsmanager_backends[self.account][self.region].secrets.get(name)
        return str(secret.arn) if secret else None

    def vpc_of(self, id_: str) -> str | None:
        backend = _ec2(self.account, self.region)
        subnets = (each for zone in backend.subnets.values() for each in zone.values())
        groups = (each for vpc in backend.groups.values() for each in vpc.values())
        for each in (*subnets, *groups, *backend.route_tables.values()):
            if each.id == id_ and each.vpc_id:
                return str(each.vpc_id)
        return None

    def s3_gateway_policy(self, subnets: Sequence[str]) -> Policy | None:
        """Return the policy of the gateway endpoint that routes the first of the subnets to S3.

        None without such an endpoint: there the way to S3, if any, has no policy.
        """
        if not subnets:
            return None
        backend, vpc = _ec2(self.account, self.region), self.vpc_of(subnets[0])
        tables = list(backend.route_tables.values())
        own = [each for each in tables if subnets[0] in each._associations.values()]
        # A subnet without a table of its own has its VPC's main one.
        main = [each for each in tables if each.main_association_id and each.vpc_id == vpc]
        ids = {table.id for table in own or main}
        for gateway in backend.vpc_end_points.values():
            if gateway.service_name.endswith(".s3") and ids & set(gateway.route_table_ids or ()):
                return _document(gateway.policy_document)
        return None

    def tags(self, arn: str) -> Tags:
        owner = self.owner(arn)
        if owner != self.account:
            other = self.state_of(owner)
            return other.tags(arn) if other else {}
        service, name = [*arn.split(":"), "", ""][2], arn.rpartition("/")[2]
        tags: Any = []
        try:
            if service == "ec2":
                return dict(_ec2(self.account, self.region).tags.get(name, {}))
            if service == "sagemaker":
                tags = self.sagemaker("ListTags", {"ResourceArn": arn}).get("Tags", [])
            elif service == "iam" and (role := role_named(self.account, name)):
                tags = role.tags or ()
        except (AwsError, ServiceException, KeyError):
            return {}
        return {str(tag["Key"]): str(tag["Value"]) for tag in tags}

    def policies_of_caller(self, arn: str) -> tuple[Mapping[str, Policy], Policy | None]:
        """Return the policies of a role session or user by name, and their boundary."""
        return self.policies_of(role_of_session(arn) or self.entity(arn))

    def policy_on(self, question: Question) -> Policy | None:
        """Return the policy on the question's resource, in the account that owns it.

        A repository without a policy is open to its own account only. The evaluator takes a
        repository of an account that this emulator does not have for AWS's, which are open.
        """
        owner = self.owner(question.resource)
        state = self if owner == self.account else self.state_of(owner)
        if state is None:
            return None
        policy = state.resource_policy(question)
        if policy is None and question.service == "ecr":
            own = {"Effect": "Allow", "Principal": {"AWS": owner}, "Action": "ecr:*"}
            return {"Version": "2012-10-17", "Statement": [own]}
        return policy

    def caller_context(self, caller_arn: str) -> dict[str, ContextValue]:
        """Return `aws:PrincipalArn` of a role session, with the role's path."""
        role = role_of_session(caller_arn)
        return {"aws:PrincipalArn": str(role.arn)} if role else {}

    def entity(self, arn: str) -> Any:
        """Return moto's role, user or group of this ARN; None if there is none."""
        backend = iam_of(self.account)
        kinds = (backend.roles, backend.users, backend.groups)  # moto's names may be the same
        return next(filter(None, (with_arn(kind, arn) for kind in kinds)), None)

    def policies_of(self, entity: Any) -> tuple[Mapping[str, Policy], Policy | None]:
        """Return the policies of a role, user (with groups') or group, and its boundary."""
        backend = iam_of(self.account)
        groups = [group for group in backend.groups.values() if entity in group.users]
        holders = [entity, *groups] if entity else []
        identity = dict(policy for holder in holders for policy in _named_policies(holder))
        boundary = getattr(entity, "permissions_boundary_arn", None)
        if boundary not in backend.managed_policies:
            return identity, None
        return identity, _default_version(backend.managed_policies[boundary])

    def resource_policy(self, question: Question) -> Policy | None:
        """Return the policy on a resource of this account, None if there is no such thing."""
        account, region, arn = self.account, self.region, question.resource
        name = arn.rpartition("/")[2]
        holders: Mapping[str, Callable[[], Any]] = {
            "s3": lambda: self._bucket(arn.split(":")[5].partition("/")[0]),
            "kms": lambda: kms_backends[account][region].keys.get(name),
            "sqs": lambda: sqs_backends[account][region].queues.get(arn.rpartition(":")[2]),
            "sns": lambda: sns_backends[account][region].topics.get(arn),
            "ecr": lambda: with_arn(ecr_backends[account][region].repositories, arn),
        }
        readers: Mapping[str, Callable[[], Any]] = {
            "lambda": lambda: self.functions.get(arn).policy_document,
            "sts": lambda: getattr(role_named(account, name), "assume_role_policy_document", None),
            "sagemaker": lambda: self._group_policy(arn),
        }
        policy: Any = None
        if arn != "*" and question.service in holders:
            policy = getattr(holders[question.service](), "policy", None)
        elif arn != "*" and question.service in readers:
            with suppress(AwsError):  # there is no such thing
                policy = readers[question.service]()
        document = _document(policy) if policy else None
        return document if document and document.get("Statement") else None

    def _group_policy(self, arn: str) -> Any:
        """Return the policy of a model package group, which is about the group and its versions."""
        kind, _, path = arn.split(":", 5)[5].partition("/")
        if kind not in {"model-package-group", "model-package"}:
            return None
        group = {"ModelPackageGroupName": path.partition("/")[0]}
        return self.sagemaker("GetModelPackageGroupPolicy", group)["ResourcePolicy"]


def owner_of_bucket(name: str) -> str | None:
    """Return the account of a bucket; all accounts share one namespace of buckets."""
    partition_and_account = s3_backends.bucket_accounts.get(name)
    return partition_and_account[1] if partition_and_account else None


def copied_object(call: ApiCall) -> tuple[str, str, str | None]:
    """Return bucket, key and version of the object that a call of S3 copies, the names decoded."""
    path, _, query = str(call.parameters.get("CopySource") or "").partition("?")
    bucket, _, key = unquote(path).lstrip("/").partition("/")
    return bucket, key, parse_qs(query).get("versionId", [None])[0]


def _named_policies(holder: Any) -> list[tuple[str, Policy]]:
    """Return the inline and managed policies of a role, user or group, by name."""
    managed = {policy.name: _default_version(policy) for policy in holder.managed_policies.values()}
    return [
        *managed.items(),
        *((name, _document(document)) for name, document in holder.policies.items()),
    ]


def _default_version(policy: ManagedPolicy) -> Policy:
    """Return the default version of a managed policy."""
    return _document(next(version.document for version in policy.versions if version.is_default))


def _document(policy: Any) -> Policy:
    """Return a policy as a document; moto keeps some as text."""
    return dict(policy if isinstance(policy, Mapping) else json.loads(policy))


def _ec2(account: str, region: str) -> Any:
    """Return moto's EC2.

    It is not imported with this module: it reads a hundred files of instance types, the larger part
    of an emulator's start.
    """
    return get_backend("ec2")[account][region]
