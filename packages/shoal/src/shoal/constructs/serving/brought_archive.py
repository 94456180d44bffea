"""A custom resource that brings the pinned archive into the environment's own bucket.

Whoever serves holds its own verified copy, so a deployment, a rollback or a new container needs
nothing of the environment that trained. See docs/decisions/accounts.md.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.data.seal import sealed_folders, sealed_variables
from shoal.constructs.functions.python_function import PythonFunction
from shoal.settings.names import BRING, SEALED, Names
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
        self.url = names.sealed_url(release.model_data_sha256)
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
        self._allow(names, release, key)
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

    def _allow(self, names: Names, release: Release, key: kms.IKey) -> None:
        role, source = self.bringer.role, f"arn:aws:s3:::{release.bucket}"
        bucket = f"arn:aws:s3:::{names.bucket('artifacts')}"
        own = [f"{bucket}/{folder}/*" for folder in sealed_folders(names)]
        # Nothing here names the version: a policy that changes with each release would have to
        # reach all of IAM before the function runs, moments later.
        role.allow(
            "AskRegistry",
            ["sagemaker:DescribeModelPackage"],
            on=[f"{release.model_package_arn.rpartition('/')[0]}/*"],
            because="SageMaker numbers the versions inside the model package group.",
        )
        role.allow(
            "ReadSealed",
            ["s3:GetObject", "s3:GetObjectVersion"],
            on=sorted({*own, f"arn:aws:s3:::{release.sealed_folder}/*"}),
            because="Sealed archives are named by their hash.",
        )
        role.allow(
            "WriteSealed",
            ["s3:PutObject", "s3:AbortMultipartUpload"],
            on=own,
            because="Sealed archives are named by their hash.",
        )
        role.allow("UseKey", ["kms:Decrypt", "kms:GenerateDataKey"], on=[key.key_arn])
        role.allow(
            "DecryptSource",
            ["kms:Decrypt"],
            on=[f"arn:aws:kms:{release.region}:{release.account}:key/*"],
            when={
                "StringEquals": {
                    "kms:ViaService": f"s3.{release.region}.amazonaws.com",
                },
                # S3 names the bucket where bucket keys are on, else the object.
                "StringLike": {
                    "kms:EncryptionContext:aws:s3:arn": [source, f"{source}/{SEALED}/*"]
                },
            },
            because=(
                "The id of the key of the environment that trained it is not known here; the"
                " conditions name the bucket."
            ),
        )
