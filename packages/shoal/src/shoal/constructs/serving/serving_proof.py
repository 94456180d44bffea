"""A custom resource that fails a deployment unless the new release is live.

SageMaker's own rollback leaves an endpoint in service, with the old configuration: a deployment
that only waits for "in service" takes a rollback for a success
(hashicorp/terraform-provider-aws#48997).
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.pipeline.smoke_test_file import packed_files
from shoal.constructs.python_function import PythonFunction
from shoal.constructs.serving.served_model import ServedModel
from shoal.constructs.serving.serving_role import allow_archive
from shoal.launch import tables
from shoal.settings.names import SERVING_PROOF, WORKLOAD_TAG, Names
from shoal.settings.sections.release import Release

_TIMEOUT = cdk.Duration.minutes(10)
_MEMORY_MB = 1769
"""One whole CPU, for hashing the archive.

Source: Lambda developer guide, "Configure Lambda function memory".
"""


class ServingProof(Construct):
    """`resource` has the release among its properties, so that it runs again for every release."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        requests: bytes,
        release: Release,
        served: ServedModel,
        key: kms.IKey,
    ) -> None:
        """`key` is the environment's own; `requests` is what
        shoal.constructs.pipeline.smoke_test_file returns.
        """
        super().__init__(scope, construct_id)
        self._names = names
        self.prover = PythonFunction(
            self,
            "Prover",
            names=names,
            purpose=SERVING_PROOF,
            folder="smoke_test",
            module="serving_proof",
            files=packed_files(requests),
            description=(
                f"Proves that the endpoint {names.serving_endpoint} serves the pinned release"
            ),
            timeout=_TIMEOUT,
            memory_mb=_MEMORY_MB,
        )
        self._allow()
        allow_archive(self.prover.role, names, release, key)
        self.resource = cdk.CustomResource(
            self,
            "Resource",
            resource_type="Custom::ServingProof",
            service_token=self.prover.function.function_arn,
            service_timeout=cdk.Duration.minutes(_TIMEOUT.to_minutes() + 1),
            properties={
                "EndpointName": names.serving_endpoint,
                "EndpointConfigName": served.config.attr_endpoint_config_name,
                "ModelName": served.model.attr_model_name,
                "ImageDigest": release.image_digest,
                "ModelDataUrl": names.sealed_url(release),
                "ModelDataSha256": release.model_data_sha256,
                **(
                    {"ContentSha256": release.content_sha256}
                    if tables.runs_inference_script(release.image_uri)
                    else {}
                ),
            },
        )
        self.resource.node.add_dependency(self.prover)

    def _allow(self) -> None:
        names, environment = self._names, self._names.environment
        tags = {
            "aws:ResourceTag/shoal:project": environment.project,
            "aws:ResourceTag/shoal:environment": environment.name,
        }
        if environment.workloads:
            tags[f"aws:ResourceTag/{WORKLOAD_TAG}"] = names.prefix
        self.prover.role.allow_part(
            "serving-proof",
            endpoint=names.serving_endpoint_arn,
            tags=tags,
            stack=cdk.Stack.of(self).stack_name,
        )
