"""The customer-managed key and the data, artifact and log buckets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

from shoal.constructs.data.data_key import environment_key
from shoal.constructs.data.seal import sealing_statements
from shoal.constructs.roles.consumer_access import bucket_statements
from shoal.constructs.shoal_stack import removal_policy
from shoal.settings.key_policy import key_statements
from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import CANDIDATES, RUNS, Names

# Server access logging cannot write to a bucket encrypted with a customer's key (S3 user guide,
# "Enabling server access logging").
_LOG_ENCRYPTION = s3.BucketEncryption.S3_MANAGED


class Storage(Construct):
    """`key`, `data`, `artifacts` and `logs`; `own` are the buckets that are made here.

    They stay when the stack of a protected environment is deleted; otherwise they are deleted with
    it.
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
