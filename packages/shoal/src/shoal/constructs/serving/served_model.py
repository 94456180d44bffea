"""Model and endpoint configuration of a pinned release, under names that CloudFormation generates.

A change in either gives it a new name: CloudFormation creates the new one, updates the endpoint,
and then deletes the old one. It could not replace resources with names of ours.
"""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from shoal.constructs.roles.guard_rails import Place
from shoal.constructs.serving.brought_archive import BroughtArchive
from shoal.constructs.serving.serving_role import CAPTURED
from shoal.launch import recipes
from shoal.launch.tables import takes_volume_key
from shoal.settings.names import Names
from shoal.settings.sections.release import Release
from shoal.settings.sections.serving import DataCapture, Serving

VARIANT = "AllTraffic"
"""The same in every release: a deployment needs the variant of the old configuration (developer
guide, "Exclusions" of guardrails).
"""
_CONTENT_TYPES = ["application/json"]


class ServedModel(Construct):
    """`model` and `config`.

    Serverless inference has neither a VPC nor volumes nor data capture
    (packages/shoal/src/shoal/settings/sections/serving.py).
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
        sizes = sagemaker.CfnEndpointConfig.ServerlessConfigProperty
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
            serverless_config=(
                sizes(
                    memory_size_in_mb=serverless.memory_mb,
                    max_concurrency=serverless.max_concurrency,
                )
                if serverless
                else None
            ),
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
