"""A custom resource that brings the pinned archive, or files, into the environment's own bucket.

Whoever serves holds its own verified copy, so a deployment, a rollback or a new container needs
nothing of the environment that trained. See docs/decisions/accounts.md.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.data.seal import sealed_folders, sealed_variables
from shoal.constructs.python_function import PythonFunction
from shoal.settings.names import BRING, Names
from shoal.settings.sections.release import Release

_TIMEOUT = cdk.Duration.minutes(14)
"""Lambda ends a function after 15; S3 copies meanwhile, twice."""


class BroughtArchive(Construct):
    """`resource` succeeds when the archive lies at `url` with the pinned hash.

    Deleting it keeps the archive.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        release: Release,
        key: kms.IKey,
    ) -> None:
        """`key` is the environment's own."""
        super().__init__(scope, construct_id)
        bucket = names.bucket("artifacts")
        self.url = names.sealed_url(release)
        self.bringer = PythonFunction(
            self,
            "Bringer",
            names=names,
            purpose=BRING,
            folder="seal",
            module="bring",
            environment=sealed_variables(names),
            description=f"Brings the archive that {names.prefix} serves into its own bucket",
            timeout=_TIMEOUT,
        )
        own = sealed_folders(names)
        own_folders = {f"{bucket}/{folder}" for folder in own}
        self.bringer.role.allow_part(
            "bring",
            packages=release.model_package_arn.rpartition("/")[0],
            readable=sorted({*own_folders, release.sealed_folder}),
            sealed=own,
            key=key.key_arn,
            source_bucket=release.bucket,
            source_region=release.region,
            source_account=release.account,
        )
        if release.is_files:
            source = release.sealed_folder.partition("/")[2]
            self.bringer.role.allow_list({bucket, release.bucket}, {*own, source})
        self.resource = cdk.CustomResource(
            self,
            "Resource",
            resource_type="Custom::BroughtArchive",
            service_token=self.bringer.function.function_arn,
            service_timeout=cdk.Duration.minutes(_TIMEOUT.to_minutes() + 1),
            properties={
                "ModelPackageArn": release.model_package_arn,
                "ModelDataUrl": release.model_data_url,
                "ModelDataSha256": release.model_data_sha256,
                "ModelDataCompositeSha256": release.model_data_composite_sha256 or "",
                # What else the model is made of: a change has to call the function.
                "ImageUri": release.image_uri,
                "Environment": dict(release.environment),
                "Bucket": bucket,
            },
        )
        self.resource.node.add_dependency(self.bringer)
