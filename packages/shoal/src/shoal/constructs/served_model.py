"""The model of a pinned release: its archive, role, containers and endpoint configuration."""

import hashlib

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from shoal.constructs.python_function import PythonFunction
from shoal.constructs.roles.actor_role import ActorRole, SageMakerRole
from shoal.constructs.roles.guard_rails import Place
from shoal.constructs.storage import sealed_folders, sealed_variables
from shoal.launch import recipes
from shoal.launch.tables import takes_volume_key
from shoal.settings.names import BRING, SERVED_CHARACTERS, Names
from shoal.settings.sections.release import Release
from shoal.settings.sections.serving import DataCapture, Serving

CAPTURED = "captured"
"""Prefix in the artifact bucket below which requests and answers are kept."""


class ServingRole(SageMakerRole):
    """Source: SageMaker developer guide, "SageMaker roles", CreateModel; "Auto-Rollback
    Configuration and Monitoring" for the alarms.

    Every archive and image has a role of its own. With one role for all, an update would take the
    old archive away from a fleet that still serves, may scale out, and is the target of a rollback.
    CloudFormation deletes the old role last, with the old model. See docs/decisions/serving.md.
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


class BroughtArchive(Construct):
    """`resource` succeeds when the archive lies at `url` with the pinned hash; it stays on delete.

    Who serves holds a verified copy, so a deployment, a rollback or a new container needs nothing
    of the environment that trained. See docs/decisions/accounts.md.
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
            environment=sealed_variables(names),
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
            service_timeout=self.bringer.answered_within,
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


VARIANT = "AllTraffic"
"""The same in every release: a deployment needs the variant of the old configuration (developer
guide, "Exclusions" of guardrails).
"""
_CONTENT_TYPES = ["application/json"]


class ServedModel(Construct):
    """`model` and `config`.

    Serverless inference has neither a VPC nor volumes nor data capture
    (packages/shoal/src/shoal/settings/sections/serving.py).

    A change in either gives it a new name: CloudFormation creates the new one, updates the
    endpoint, and then deletes the old one. It could not replace resources with names of ours.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        settings: Serving,
        release: Release,
        archive: BroughtArchive,
        role: iam.IRole,
        place: Place,
        key: kms.IKey,
    ) -> None:
        super().__init__(scope, construct_id)
        self._names, self._settings, self._key = names, settings, key
        self._ami = recipes.ami_of(settings.instance_type, release.image)
        source = sagemaker.CfnModel.ModelDataSourceProperty
        files = sagemaker.CfnModel.S3DataSourceProperty(
            s3_uri=archive.url, s3_data_type="S3Prefix", compression_type="None"
        )
        vpc = sagemaker.CfnModel.VpcConfigProperty(
            subnets=[*place.subnet_ids], security_group_ids=[*place.security_group_ids]
        )
        self.model = sagemaker.CfnModel(
            self,
            "Model",
            execution_role_arn=role.role_arn,
            enable_network_isolation=settings.network_isolation or None,
            containers=[
                sagemaker.CfnModel.ContainerDefinitionProperty(
                    image=release.image,
                    model_data_url=None if release.is_files else archive.url,
                    model_data_source=source(s3_data_source=files) if release.is_files else None,
                    environment=dict(release.environment),
                )
            ],
            vpc_config=None if settings.serverless else vpc,
        )
        # With the role's policies: SageMaker looks for the archive when the model is made.
        self.model.node.add_dependency(role, archive.resource)
        capture = settings.data_capture
        self.config = sagemaker.CfnEndpointConfig(
            self,
            "Config",
            production_variants=[self._variant()],
            kms_key_id=key.key_arn if self.has_encrypted_volumes else None,
            data_capture_config=self._capture(capture) if capture else None,
        )

    @property
    def has_encrypted_volumes(self) -> bool:
        """Return whether the instances' volumes take a key: instances with local storage encrypt it
        in hardware, and refuse one.
        """
        return self._settings.serverless is None and takes_volume_key(self._settings.instance_type)

    def _variant(self) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
        settings, serverless = self._settings, self._settings.serverless
        sizes = serverless and sagemaker.CfnEndpointConfig.ServerlessConfigProperty(
            memory_size_in_mb=serverless.memory_mb, max_concurrency=serverless.max_concurrency
        )
        return sagemaker.CfnEndpointConfig.ProductionVariantProperty(
            variant_name=VARIANT,
            model_name=self.model.attr_model_name,
            initial_variant_weight=1.0,
            instance_type=None if serverless else settings.instance_type,
            initial_instance_count=None if serverless else settings.instance_count,
            inference_ami_version=settings.inference_ami_version or self._ami,
            container_startup_health_check_timeout_in_seconds=settings.container_startup_timeout_s,
            model_data_download_timeout_in_seconds=settings.model_download_timeout_s,
            volume_size_in_gb=settings.volume_size_gb,
            serverless_config=sizes,
        )

    def _capture(
        self, capture: DataCapture
    ) -> sagemaker.CfnEndpointConfig.DataCaptureConfigProperty:
        option = sagemaker.CfnEndpointConfig.CaptureOptionProperty
        header = sagemaker.CfnEndpointConfig.CaptureContentTypeHeaderProperty
        return sagemaker.CfnEndpointConfig.DataCaptureConfigProperty(
            enable_capture=True,
            initial_sampling_percentage=capture.percent,
            destination_s3_uri=f"s3://{self._names.bucket('artifacts')}/{self._names.folder(CAPTURED)}",
            kms_key_id=self._key.key_arn,
            capture_options=[option(capture_mode="Input"), option(capture_mode="Output")],
            capture_content_type_header=header(json_content_types=_CONTENT_TYPES),
        )
