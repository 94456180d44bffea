"""The role of the containers that serve a pinned release: it reads one archive and pulls one image.

Every archive and image has a role of its own. With one role for all, an update would take the old
archive away from a fleet that still serves, may scale out, and is the target of a rollback.
CloudFormation deletes the old role last, with the old model.

The archive is the environment's own copy, under its own key. See docs/decisions/serving.md.
"""

from __future__ import annotations

import hashlib

from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.roles.actor_role import ActorRole
from shoal.constructs.roles.guard_rails import Place
from shoal.constructs.roles.sagemaker_role import SageMakerRole
from shoal.settings.names import SERVED_CHARACTERS, Names
from shoal.settings.sections.release import Release

CAPTURED = "captured"
"""Prefix in the artifact bucket below which requests and answers are kept."""


class ServingRole(SageMakerRole):
    """Source: SageMaker developer guide, "SageMaker roles", CreateModel; "Auto-Rollback
    Configuration and Monitoring" for the alarms.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, release: Release, key: kms.IKey
    ) -> None:
        """`key` is the environment's own.

        The logical id contains `construct_id` and a digest of what is served: another archive or
        image gets another role.
        """
        # of what the role may read: the archive and the image; it is short because role names are
        served = f"{release.model_data_sha256} {release.image_uri}"
        digest = hashlib.sha256(served.encode()).hexdigest()[:SERVED_CHARACTERS]
        super().__init__(
            scope,
            f"{construct_id}{digest}",
            names=names,
            actor=names.serving_role(digest),
            log_group="Endpoints",
            endpoint=names.serving_endpoint,
            # SageMaker developer guide, "Cross-service confused deputy prevention": hosting sends
            # no narrower ARN than this.
            source="*",
            description=f"Serves the pinned release of {names.prefix}",
        )
        self.allow_pull([release.image_uri])
        allow_archive(self, names, release, key)

    def allow_place(self, place: Place) -> None:
        """Allow serving from the VPC."""
        self.allow_part("see-vpc")
        self.allow_interfaces(place)
        self.allow_part("see-vpc-endpoints")


def allow_archive(role: ActorRole, names: Names, release: Release, key: kms.IKey) -> None:
    """Let the role read the environment's own copy of the release's archive, or its files."""
    url = names.sealed_url(release)
    archive = f"arn:aws:s3:::{url.removeprefix('s3://')}"
    if release.is_files:
        role.allow_part("files", files=archive, key=key.key_arn)
        bucket, _, folder = archive.rpartition(":")[2].rstrip("/").partition("/")
        role.allow_list({bucket}, {folder})
    else:
        role.allow_part("archive", archive=archive, key=key.key_arn)
