"""The key and the buckets of an environment, what empties them, and the place of sealed models."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from shoal.constructs.python_function import PythonFunction
from shoal.constructs.roles.actor_role import resource_policy
from shoal.constructs.roles.delivery_roles import bucket_statements
from shoal.constructs.shoal_stack import removal_policy
from shoal.settings.key_policy import key_statements
from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import BRING, CANDIDATES, RUNS, SEALED, Names


def environment_key(
    scope: Construct,
    names: Names,
    *,
    alias: str,
    description: str,
    statements: Iterable[Mapping[str, Any]],
) -> kms.IKey:
    """Return the organisation's key, or make one, rotated every year.

    In a protected environment it outlives its stack, because what it encrypts does. Nobody but its
    owner changes the policy of the organisation's.

    The CDK's default gives the account every action and leaves the rest to IAM. Here the account
    administers the key, and `shoal.settings.key_policy` says what may use it. Source: AWS KMS
    developer guide, "Key policies".
    """
    environment = names.environment
    if arn := environment.organisation.kms_key_arn:
        return kms.Key.from_key_arn(scope, "Key", arn)
    account = iam.AccountPrincipal(environment.account)
    administration = resource_policy("administer-key", names, account)
    uses = map(iam.PolicyStatement.from_json, statements)
    return kms.Key(
        scope,
        "Key",
        alias=f"alias/{alias}",
        description=description,
        enable_key_rotation=True,
        pending_window=cdk.Duration.days(30 if environment.protect else 7),
        removal_policy=removal_policy(environment.protect),
        policy=iam.PolicyDocument(statements=[*administration, *uses]),
    )


EMPTY_PURPOSE, REGISTRY_PURPOSE = "empty-on-delete", "empty-registry"
"""Of the functions that empty what all workloads share, and what one has."""
# The function acts only on what carries this tag. When an environment becomes protected,
# CloudFormation takes the tag away in the same update that removes the custom resource, and it
# removes resources last: the data stays.
EMPTY_TAG = "shoal:empty-on-delete"


class EmptyOnDelete(Construct):
    """Empties what `buckets` and `registry` get right before CloudFormation deletes it.

    Its function is `shoal/functions/empty_on_delete`; the CDK's own provider would bring Node.js
    into the stack.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        purpose: str = EMPTY_PURPOSE,
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self._emptier = PythonFunction(self, "Emptier", names=names, purpose=purpose)

    def buckets(self, buckets: Mapping[str, s3.Bucket]) -> None:
        """Empty these buckets (purpose -> bucket) on delete, all versions included."""
        names = [self._names.bucket(purpose) for purpose in buckets]
        self._emptier.role.allow_part("empty-buckets", buckets=names)
        for purpose, bucket in buckets.items():
            self._resource(
                bucket,
                f"{purpose.capitalize()}Bucket",
                "Custom::EmptyBucket",
                {"BucketName": bucket.bucket_name},
            )

    def registry(self, group: sagemaker.CfnModelPackageGroup) -> None:
        """Delete the model packages of `group` on delete: a group must be empty for that."""
        name = self._names.model_package_group
        group_arn = self._names.arn("sagemaker", f"model-package-group/{name}")
        self._emptier.role.allow_part("empty-registry")
        self._resource(
            group,
            "Registry",
            "Custom::EmptyModelPackageGroup",
            {"ModelPackageGroupName": name, "ModelPackageGroupArn": group_arn},
        )

    def _resource(
        self, owner: Construct, resource_id: str, resource_type: str, properties: Mapping[str, str]
    ) -> None:
        cdk.Tags.of(owner).add(EMPTY_TAG, "true")
        resource = cdk.CustomResource(
            self,
            resource_id,
            resource_type=resource_type,
            service_token=self._emptier.function.function_arn,
            properties=dict(properties),
        )
        # Deleted first, while the role may still do its work.
        resource.node.add_dependency(self._emptier, owner)


SEAL_PURPOSE = "seal"


class Seal(Construct):
    """It may read what training wrote; only it and what brings archives may write sealed ones."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, key: kms.IKey) -> None:
        super().__init__(scope, construct_id)
        self.sealer = PythonFunction(
            self,
            "Sealer",
            names=names,
            purpose=SEAL_PURPOSE,
            environment=sealed_variables(names),
        )
        sealed = sealed_folders(names)
        readable = [names.folder("training"), *sealed]
        role = self.sealer.role
        role.allow_part("seal", readable=readable, sealed=sealed, key=key.key_arn)
        if names.environment.training.keeps_files:
            role.allow_list({names.bucket("artifacts")}, readable)


def sealed_folders(names: Names) -> list[str]:
    """Return the prefixes below which sealed archives and their candidates lie."""
    own = names.folder(SEALED)
    # Alone, the second lies below the first.
    return [own] if own == SEALED else [own, names.folder(CANDIDATES)]


def sealed_variables(names: Names) -> dict[str, str]:
    """Return what a function must know that seals archives."""
    return {
        "SEALED_FOLDER": names.folder(SEALED),
        "CANDIDATES_FOLDER": names.folder(CANDIDATES),
    }


def sealing_statements(names: Names) -> list[iam.PolicyStatement]:
    """Return the statements of the artifact bucket that hold against every other policy.

    A role that does not exist here, as BRING where nothing is served, is nobody. In a protected
    environment what empties buckets does not exist, and nobody deletes.
    """
    writers = [names.role_arn(SEAL_PURPOSE), names.role_arn(BRING)]
    deleters = [names.role_arn(EMPTY_PURPOSE)]
    anyone = iam.AnyPrincipal()
    return resource_policy("sealed", names, anyone, writers=writers, deleters=deleters)


# Server access logging cannot write to a bucket encrypted with a customer's key (S3 user guide,
# "Enabling server access logging").
_LOG_ENCRYPTION = s3.BucketEncryption.S3_MANAGED


class Storage(Construct):
    """`key`, `data`, `artifacts` and `logs`; `own` are the buckets that are made here.

    They are deleted with their stack, unless the environment is protected.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        consumers: Sequence[Consumer] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        protect = names.environment.protect
        self._removal = removal_policy(protect)
        self.key = environment_key(
            self,
            names,
            alias=names.shared_prefix,
            description=f"Data and artifacts of {names.shared_prefix}",
            statements=key_statements(names, consumers),
        )
        for name, value in names.environment.organisation.outputs.items():
            cdk.CfnOutput(cdk.Stack.of(self), name, value=value)
        self.logs = self._bucket(
            "logs", [_clean_up(after_days=30), _expire("", days=365)], encryption=_LOG_ENCRYPTION
        )
        existing, self.own = names.environment.organisation.data_bucket, dict[str, s3.Bucket]()
        if existing:
            self.data = s3.Bucket.from_bucket_name(self, "Data", existing)
        else:
            self.data = self.own["data"] = self._encrypted("data", [_clean_up(after_days=90)])
            # Always: CloudFormation writes a bucket's notifications whole, so a later change would
            # take away those of FSx for Lustre (github.com/aws/aws-cdk/issues/29653; read). By the
            # bucket's own property: the L2 option would bring a function and a role for it.
            resource = cast(s3.CfnBucket, self.own["data"].node.default_child)
            resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
                event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(
                    event_bridge_enabled=True
                )
            )
        self.artifacts = self._encrypted(
            "artifacts",
            [
                _clean_up(after_days=30),
                # A script that keeps one checkpoint replaces it, and each version is billed.
                _expire("checkpoints/", days=30, old_versions=1),
                _expire(f"{CANDIDATES}/", days=1, old_versions=1),
                # A run's page holds lines of its log.
                _expire(f"{RUNS}/", days=names.environment.observability.log_retention_days),
            ],
        )
        for statement in (*sealing_statements(names.every), *bucket_statements(names, consumers)):
            self.artifacts.add_to_resource_policy(statement)
        self.own |= {"artifacts": self.artifacts, "logs": self.logs}
        # Those that outlive their stack stay closed to requests without TLS, and open to the log
        # service.
        for bucket in self.own.values():
            if bucket.policy:
                bucket.policy.apply_removal_policy(self._removal)

    def _bucket(
        self, purpose: str, lifecycle_rules: list[s3.LifecycleRule], **options: Any
    ) -> s3.Bucket:
        return s3.Bucket(
            self,
            purpose.capitalize(),
            bucket_name=self._names.bucket(purpose),
            enforce_ssl=True,
            minimum_tls_version=1.2,
            versioned=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=lifecycle_rules,
            removal_policy=self._removal,
            **options,
        )

    def _encrypted(self, purpose: str, lifecycle_rules: list[s3.LifecycleRule]) -> s3.Bucket:
        return self._bucket(
            purpose,
            lifecycle_rules,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self.key,
            bucket_key_enabled=True,
            server_access_logs_bucket=self.logs,
            server_access_logs_prefix=f"{purpose}/",
        )


def _expire(prefix: str, *, days: int, old_versions: int | None = None) -> s3.LifecycleRule:
    """Return a rule for the objects below `prefix`. Where rules differ, S3 takes the shorter time
    (S3 user guide, "How Amazon S3 handles conflicts in lifecycle configurations").
    """
    return s3.LifecycleRule(
        id=f"expire-{prefix.rstrip('/') or 'all'}",
        prefix=prefix or None,
        expiration=cdk.Duration.days(days),
        noncurrent_version_expiration=old_versions and cdk.Duration.days(old_versions),
    )


def _clean_up(*, after_days: int) -> s3.LifecycleRule:
    """Return a rule that deletes what nobody sees and everybody pays for: old versions, delete
    markers of objects without versions, parts of broken uploads.
    """
    return s3.LifecycleRule(
        id="clean-up",
        noncurrent_version_expiration=cdk.Duration.days(after_days),
        expired_object_delete_marker=True,
        abort_incomplete_multipart_upload_after=cdk.Duration.days(7),
    )
