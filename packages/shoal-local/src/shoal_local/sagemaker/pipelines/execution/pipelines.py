"""CreatePipeline, UpdatePipeline, DescribePipeline, ListPipelines, DeletePipeline."""

from __future__ import annotations

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import conflict, invalid, not_emulated, not_found
from shoal_local.sagemaker.jobs.base import storage
from shoal_local.sagemaker.listing import Listing
from shoal_local.sagemaker.pipelines.definition.arguments import check_arguments
from shoal_local.sagemaker.pipelines.definition.definition import parse
from shoal_local.sagemaker.pipelines.execution import records
from shoal_local.sagemaker.shapes import Document

KIND = "pipeline"
MAX_DEFINITION = 1_048_576
"""Characters of PipelineDefinition (CreatePipeline, API reference).

Of a definition in S3 it says nothing: here as many bytes.
"""
_UPDATABLE = ("PipelineDisplayName", "PipelineDescription", "RoleArn", "ParallelismConfiguration")
_LISTING = Listing("PipelineSummaries", "PipelineSummary", "PipelineName")
_PREFIX_LISTING = Listing(
    _LISTING.answer,
    _LISTING.summary,
    _LISTING.name,
    extra_filters=frozenset({"PipelineNamePrefix"}),
)


class Pipelines:
    """The pipelines of the account.

    A definition that the emulator could not run is refused.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    def create(self, request: Document) -> Document:
        text = self._definition(request)
        check_arguments(parse(text))
        name, now = request["PipelineName"], names.now()
        document: Document = {
            **{
                key: request[key]
                for key in ("PipelineDescription", "ParallelismConfiguration")
                if key in request
            },
            "_name": name.lower(),
            "_tags": request.get("Tags", []),
            "_token": request["ClientRequestToken"],
            "PipelineArn": self._core.arn("pipeline", name),
            "PipelineName": name,
            "PipelineDisplayName": request.get("PipelineDisplayName", name),
            "PipelineDefinition": text,
            "RoleArn": request["RoleArn"],
            "PipelineStatus": "Active",
            "CreationTime": now,
            "LastModifiedTime": now,
            "CreatedBy": {},
            "LastModifiedBy": {},
        }
        existing = self._core.store.get(KIND, name.lower())
        if existing is None or existing["_token"] != request["ClientRequestToken"]:
            self._core.store.create(KIND, name.lower(), document, _name_in_use)
        return {"PipelineArn": document["PipelineArn"]}

    def _definition(self, request: Document) -> str:
        if "PipelineDefinition" in request:
            return str(request["PipelineDefinition"])
        if "PipelineDefinitionS3Location" not in request:
            raise invalid("Either PipelineDefinition or PipelineDefinitionS3Location is required")
        place = request["PipelineDefinitionS3Location"]
        version = {"VersionId": place["VersionId"]} if "VersionId" in place else {}
        message = (
            "Unable to read the pipeline definition from"
            f" s3://{place['Bucket']}/{place['ObjectKey']}"
        )
        try:
            answer = self._core.context.clients("s3", None).get_object(
                Bucket=place["Bucket"], Key=place["ObjectKey"], **version
            )
            if answer["ContentLength"] > MAX_DEFINITION:
                raise invalid(
                    f"{message}: it has {answer['ContentLength']} bytes; at most"
                    f" {MAX_DEFINITION} are allowed"
                )
            return str(answer["Body"].read().decode())
        except (*storage.S3_FAILURES, UnicodeDecodeError) as error:
            raise invalid(f"{message}: {error}") from error

    def find(self, name_or_arn: str) -> Document:
        """Return the pipeline by its ARN, or by its name in any case; raise ResourceNotFound if
        there is none.
        """
        name = names.name_in(self._core.context, KIND, name_or_arn)
        document = self._core.store.get(KIND, name.lower())
        if document is None:
            arn = name if name.startswith("arn:") else self._core.arn(KIND, name)
            raise not_found(f"Pipeline '{arn}' does not exist.")
        return document

    def update(self, request: Document) -> Document:
        document = self.find(request["PipelineName"])
        changes: Document = {key: request[key] for key in _UPDATABLE if key in request}
        if {"PipelineDefinition", "PipelineDefinitionS3Location"} & set(request):
            changes["PipelineDefinition"] = self._definition(request)
            definition = parse(changes["PipelineDefinition"])
            check_arguments(definition)
        self._core.store.change(
            KIND, document["_name"], lambda each: each.update(changes, LastModifiedTime=names.now())
        )
        return {"PipelineArn": document["PipelineArn"]}

    def describe(self, request: Document) -> Document:
        if "PipelineVersionId" in request:
            raise not_emulated("pipeline versions")
        return self.find(request["PipelineName"])

    def list(self, request: Document) -> Document:
        prefix = request.get("PipelineNamePrefix", "")

        def entry(each: Document) -> Document | None:
            last = {"LastExecutionTime": each["LastRunTime"]} if "LastRunTime" in each else {}
            return each | last if each["PipelineName"].startswith(prefix) else None

        filter_names = {"CreatedAfter": "CreationTimeAfter", "CreatedBefore": "CreationTimeBefore"}
        filters = {filter_names.get(key, key): value for key, value in request.items()}
        return self._core.store.listed(
            KIND, lambda each: _PREFIX_LISTING.page(each, filters, entry, in_order=True)
        )

    def delete(self, request: Document) -> Document:
        document = self.find(request["PipelineName"])
        executions = self._core.store.select(
            records.KIND, lambda each: bool(each["PipelineArn"] == document["PipelineArn"])
        )
        if any(each["PipelineExecutionStatus"] not in records.TERMINAL for each in executions):
            raise conflict(
                f"Pipeline {document['PipelineArn']} has executions that are still running; stop"
                " them first."
            )
        for each in executions:
            self._core.store.delete(records.KIND, each["_name"])
        self._core.store.delete(KIND, document["_name"])
        return {"PipelineArn": document["PipelineArn"]}


def _name_in_use(existing: Document) -> AwsError:
    return invalid(
        "Pipeline names must be unique within an AWS account and region. Pipeline with name"
        f" ({existing['PipelineName']}) already exists."
    )
