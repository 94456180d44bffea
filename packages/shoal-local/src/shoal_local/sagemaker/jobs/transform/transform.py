"""CreateTransformJob, DescribeTransformJob, ListTransformJobs, StopTransformJob."""

from __future__ import annotations

from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import not_emulated, refuse_fields
from shoal_local.sagemaker.hosting.models import Models
from shoal_local.sagemaker.jobs.base.job import TRANSFORM
from shoal_local.sagemaker.jobs.base.jobs import Jobs
from shoal_local.sagemaker.jobs.transform.transform_run import TransformRun
from shoal_local.sagemaker.references import assume, check_keys, check_network
from shoal_local.sagemaker.shapes import Document


class TransformJobs(Jobs):
    """The batch transform jobs of the account."""

    def __init__(self, core: Core) -> None:
        super().__init__(core, TRANSFORM)

    def create(self, request: Document) -> Document:
        check_transform(request)
        model = Models(self._core).find(request["ModelName"])
        assume(self._core, model["ExecutionRoleArn"], f"SageMaker-{request['TransformJobName']}")
        check_network(self._core, model.get("VpcConfig"))
        volume_key = request["TransformResources"].get("VolumeKmsKeyId")
        check_keys(self._core, request["TransformOutput"].get("KmsKeyId"), volume_key)
        job = self._keep_job(request)
        return self._start(TransformRun(job, model), job)


def check_transform(request: Document) -> None:
    """Raise AwsError for what is not emulated."""
    refuse_fields("CreateTransformJob", request)
    if request["TransformResources"]["InstanceCount"] != 1:
        raise not_emulated("transform jobs on more than one instance")
    source = request["TransformInput"]
    if source["DataSource"]["S3DataSource"]["S3DataType"] != "S3Prefix":
        raise not_emulated("the input of a transform job that is no S3Prefix")
    if source.get("CompressionType", "None") != "None":
        raise not_emulated("TransformInput.CompressionType other than None")
    if source.get("SplitType", "None") not in {"None", "Line"}:
        raise not_emulated("TransformInput.SplitType other than None and Line")
