"""CreateProcessingJob, DescribeProcessingJob, ListProcessingJobs, StopProcessingJob."""

from __future__ import annotations

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import in_use, invalid
from shoal_local.sagemaker.jobs.base.containers import Machine
from shoal_local.sagemaker.jobs.base.job import PROCESSING, Job
from shoal_local.sagemaker.jobs.base.threads import JobThreads
from shoal_local.sagemaker.jobs.processing.processing_request import check_processing
from shoal_local.sagemaker.jobs.processing.processing_run import ProcessingRun
from shoal_local.sagemaker.listing import Listing
from shoal_local.sagemaker.references import assume, check_keys, check_network
from shoal_local.sagemaker.shapes import Document

_LISTING = Listing(
    "ProcessingJobSummaries",
    "ProcessingJobSummary",
    "ProcessingJobName",
    "ProcessingJobStatus",
    default_order="Ascending",
)


class ProcessingJobs:
    """The processing jobs of the account."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._running = JobThreads()
        self._machine = Machine.here(core.settings.accelerators)

    def create(self, request: Document) -> Document:
        image = check_processing(request, self._core.settings.images, self._core.context.region)
        self._check_references(request)
        name, now = request["ProcessingJobName"], names.now()
        document = {key: value for key, value in request.items() if key != "Tags"} | {
            "_name": name,
            "_tags": request.get("Tags", []),
            "ProcessingJobArn": self._core.arn("processing-job", name),
            "ProcessingJobStatus": "InProgress",
            "CreationTime": now,
            "LastModifiedTime": now,
        }
        self._core.store.create(PROCESSING.store, name, document, _name_in_use)
        job = Job(self._core, PROCESSING, name)
        self._running.start(job, ProcessingRun(job, image, self._machine).run)
        return {"ProcessingJobArn": document["ProcessingJobArn"]}

    def _check_references(self, request: Document) -> None:
        assume(self._core, request["RoleArn"], f"SageMaker-{request['ProcessingJobName']}")
        check_network(self._core, request.get("NetworkConfig", {}).get("VpcConfig"))
        volume_key = request["ProcessingResources"]["ClusterConfig"].get("VolumeKmsKeyId")
        check_keys(
            self._core, request.get("ProcessingOutputConfig", {}).get("KmsKeyId"), volume_key
        )

    def describe(self, request: Document) -> Document:
        name = request["ProcessingJobName"]
        document = self._core.store.get(PROCESSING.store, name)
        if document is None:
            raise invalid(f"Could not find requested job with name: {name}")
        return document

    def list(self, request: Document) -> Document:
        return self._core.store.listed(
            PROCESSING.store, lambda all_of_them: _LISTING.page(all_of_them, request, in_order=True)
        )

    def stop(self, request: Document) -> Document:
        name, status = request["ProcessingJobName"], self.describe(request)["ProcessingJobStatus"]
        if status not in {"InProgress", "Stopping"}:
            raise invalid(
                f"The request was rejected because the processing job is in status {status}."
            )
        Job(self._core, PROCESSING, name).change(_stopping)
        self._running.stop(name)
        return {}

    def close(self) -> None:
        self._running.close()


def _stopping(document: Document) -> None:
    if document["ProcessingJobStatus"] == "InProgress":
        document["ProcessingJobStatus"] = "Stopping"


def _name_in_use(existing: Document) -> AwsError:
    unique = (
        "Job name must be unique within an AWS account and region, and a job with this name already"
        " exists"
    )
    return in_use(f"{unique} ({existing['ProcessingJobArn']})")
