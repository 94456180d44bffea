"""CreateTransformJob, DescribeTransformJob, ListTransformJobs, StopTransformJob."""

from __future__ import annotations

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import in_use, invalid, not_emulated
from shoal_local.sagemaker.hosting import models
from shoal_local.sagemaker.jobs.base.job import TRANSFORM, Job
from shoal_local.sagemaker.jobs.base.threads import JobThreads
from shoal_local.sagemaker.jobs.transform.transform_run import TransformRun
from shoal_local.sagemaker.listing import Listing
from shoal_local.sagemaker.references import assume, check_keys, check_network
from shoal_local.sagemaker.shapes import Document

_LISTING = Listing(
    "TransformJobSummaries", "TransformJobSummary", "TransformJobName", "TransformJobStatus"
)
_REFUSED = ("DataCaptureConfig", "DataProcessing", "ExperimentConfig")


class TransformJobs:
    """The batch transform jobs of the account."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._running = JobThreads()

    def create(self, request: Document) -> Document:
        check_transform(request)
        model = self._model(request)
        name, now = request["TransformJobName"], names.now()
        document = {key: value for key, value in request.items() if key != "Tags"} | {
            "_name": name,
            "_tags": request.get("Tags", []),
            "TransformJobArn": self._core.arn("transform-job", name),
            "TransformJobStatus": "InProgress",
            "CreationTime": now,
            "LastModifiedTime": now,
        }
        self._core.store.create(TRANSFORM.store, name, document, _name_in_use)
        job = Job(self._core, TRANSFORM, name)
        self._running.start(job, TransformRun(job, model).run)
        return {"TransformJobArn": document["TransformJobArn"]}

    def _model(self, request: Document) -> Document:
        """Return the model; raise ValidationException if it, its role, network or a key is not
        there.
        """
        name = request["ModelName"]
        model = self._core.store.get(models.KIND, name)
        if model is None:
            raise invalid(f'Could not find model "{self._core.arn("model", name)}".')
        assume(self._core, model["ExecutionRoleArn"], f"SageMaker-{request['TransformJobName']}")
        check_network(self._core, model.get("VpcConfig"))
        keys = (
            request["TransformOutput"].get("KmsKeyId"),
            request["TransformResources"].get("VolumeKmsKeyId"),
        )
        check_keys(self._core, *keys)
        return model

    def describe(self, request: Document) -> Document:
        name = request["TransformJobName"]
        document = self._core.store.get(TRANSFORM.store, name)
        if document is None:
            raise invalid(f"Could not find requested job with name: {name}")
        return document

    def list(self, request: Document) -> Document:
        return self._core.store.listed(
            TRANSFORM.store, lambda all_of_them: _LISTING.page(all_of_them, request, in_order=True)
        )

    def stop(self, request: Document) -> Document:
        name, status = request["TransformJobName"], self.describe(request)["TransformJobStatus"]
        if status not in {"InProgress", "Stopping"}:
            raise invalid(
                f"The request was rejected because the transform job is in status {status}."
            )
        Job(self._core, TRANSFORM, name).change(_stopping)
        self._running.stop(name)
        return {}

    def close(self) -> None:
        self._running.close()


def check_transform(request: Document) -> None:
    """Raise AwsError for what is not emulated."""
    for field in _REFUSED:
        if request.get(field):
            raise not_emulated(f"CreateTransformJob.{field}")
    if request["TransformResources"]["InstanceCount"] != 1:
        raise not_emulated("transform jobs on more than one instance")
    source = request["TransformInput"]
    if source["DataSource"]["S3DataSource"]["S3DataType"] != "S3Prefix":
        raise not_emulated("the input of a transform job that is no S3Prefix")
    if source.get("CompressionType", "None") != "None":
        raise not_emulated("TransformInput.CompressionType other than None")
    if source.get("SplitType", "None") not in {"None", "Line"}:
        raise not_emulated("TransformInput.SplitType other than None and Line")


def _stopping(document: Document) -> None:
    if document["TransformJobStatus"] == "InProgress":
        document["TransformJobStatus"] = "Stopping"


def _name_in_use(existing: Document) -> AwsError:
    unique = (
        "Job name must be unique within an AWS account and region, and a job with this name already"
        " exists"
    )
    return in_use(f"{unique} ({existing['TransformJobArn']})")
