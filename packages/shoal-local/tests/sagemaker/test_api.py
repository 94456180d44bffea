"""The API as AWS documents it: what is refused in which words, pages, tags, the registry, responses
that are checked too, and what looking at a stored document costs.
"""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import refused, register_version
from local_kit.sagemaker_account import INFERENCE_IMAGE, Account, shell_step
from local_kit.tables import rows
from shoal_local.errors import AwsError
from shoal_local.sagemaker.hosting.models import Models
from shoal_local.sagemaker.pipelines.executions import Executions
from shoal_local.sagemaker.pipelines.records import KIND
from shoal_local.sagemaker.resources import KINDS, Kind
from shoal_local.sagemaker.shapes import check_request, input_shape, response
from shoal_local.sagemaker.store import Store

UNKNOWN, INVALID = "UnknownOperationException", "ValidationException"
CASES = "cases.yaml"


@pytest.mark.parametrize(("operation", "request_", "message"), rows(__file__, CASES, "shapes"))
def test_a_request_that_breaks_its_shape_is_refused_in_aws_words(
    operation: str, request_: dict[str, Any], message: str
) -> None:
    with pytest.raises(AwsError) as caught:
        check_request(operation, request_)
    assert caught.value.code == INVALID
    assert message in caught.value.message


@pytest.mark.parametrize("record", [{}, {"ModelArn": 1}])
def test_a_response_that_aws_would_not_make_is_our_own_error(record: dict[str, Any]) -> None:
    with pytest.raises(AwsError) as caught:
        response("CreateModel", record)
    assert caught.value.code == "InternalFailure"


@pytest.mark.parametrize(
    ("method", "arguments", "code", "message"), rows(__file__, CASES, "missing")
)
def test_what_is_not_there_is_refused_in_awss_words(
    account: Account, method: str, arguments: dict[str, Any], code: str, message: str
) -> None:
    refusal, text = refused(getattr(account.sagemaker, method), **arguments)
    assert (refusal, message in text) == (code, True), text


def test_lists_come_in_pages_sorted_as_asked(account: Account) -> None:
    names = [f"paged-{number:02}" for number in range(12)]
    for name in names:
        account.sagemaker.create_model_package_group(ModelPackageGroupName=name)
    list_groups = account.sagemaker.list_model_package_groups
    options: dict[str, Any] = {"NameContains": "paged-", "SortBy": "Name", "SortOrder": "Ascending"}
    first = list_groups(**options)
    second = list_groups(**options, NextToken=first["NextToken"])
    key = "ModelPackageGroupSummaryList"
    assert [each["ModelPackageGroupName"] for each in first[key] + second[key]] == names
    assert "NextToken" not in second


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_list_has_the_order_that_the_api_reference_documents(kind: Kind) -> None:
    """Of pipelines and executions it says nothing."""
    documentation = input_shape(f"List{kind.noun}s").members["SortOrder"].documentation
    default = re.search(r"The default is <code>(\w+)</code>", documentation)
    assert kind.listing.default_order == (default[1] if default else "Descending")


def test_tags_are_merged_and_deleted_by_key(account: Account) -> None:
    arn = account.sagemaker.create_model_package_group(
        ModelPackageGroupName="tagged", Tags=[{"Key": "a", "Value": "1"}]
    )["ModelPackageGroupArn"]
    account.sagemaker.add_tags(
        ResourceArn=arn, Tags=[{"Key": "a", "Value": "2"}, {"Key": "b", "Value": "3"}]
    )
    account.sagemaker.delete_tags(ResourceArn=arn, TagKeys=["b"])
    assert account.sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "a", "Value": "2"}]


@pytest.mark.parametrize(("start", "changes", "message"), rows(__file__, CASES, "refused"))
def test_what_cannot_run_is_refused(
    account: Account, start: str, changes: dict[str, Any], message: str
) -> None:
    request = {
        "create_training_job": account.training("refused"),
        "create_processing_job": account.processing("refused", ""),
        "create_model": {"ModelName": "refused", "ExecutionRoleArn": account.role},
    }[start] | changes
    given = {key: value for key, value in request.items() if value is not None}
    code, text = refused(getattr(account.sagemaker, start), **given)
    assert code == (UNKNOWN if "not emulate" in text else INVALID)
    assert message in text


def register(account: Account, group: str) -> str:
    container = {"Image": INFERENCE_IMAGE, "ModelDataUrl": "s3://bucket/model.tar.gz"}
    return register_version(account.sagemaker, group, container)


def test_versions_of_a_group_count_up_and_wait_for_approval(account: Account) -> None:
    """Without an order the oldest is first."""
    client, group = account.sagemaker, "versions"
    client.create_model_package_group(ModelPackageGroupName=group)
    first, second = register(account, group), register(account, group)
    assert (first[-2:], second[-2:]) == ("/1", "/2")
    every = client.list_model_packages(ModelPackageGroupName=group)["ModelPackageSummaryList"]
    assert [each["ModelPackageArn"] for each in every] == [first, second]
    waiting = client.describe_model_package(ModelPackageName=first)["ModelApprovalStatus"]
    assert waiting == "PendingManualApproval"
    client.update_model_package(ModelPackageArn=second, ModelApprovalStatus="Approved")
    filters = {"ModelPackageGroupName": group, "ModelApprovalStatus": "Approved"}
    approved = client.list_model_packages(**filters)["ModelPackageSummaryList"]
    assert [each["ModelPackageArn"] for each in approved] == [second]


def test_a_group_with_versions_cannot_be_deleted(account: Account) -> None:
    account.sagemaker.create_model_package_group(ModelPackageGroupName="kept")
    package = register(account, "kept")
    with pytest.raises(account.sagemaker.exceptions.ConflictException):
        account.sagemaker.delete_model_package_group(ModelPackageGroupName="kept")
    account.sagemaker.delete_model_package(ModelPackageName=package)
    account.sagemaker.delete_model_package_group(ModelPackageGroupName="kept")


def test_a_pipelines_arn_is_lower_case_and_its_name_unique(account: Account) -> None:
    account.deploy_pipeline("MixedCase", [shell_step("A", "true")])
    described = account.sagemaker.describe_pipeline(PipelineName="mixedcase")
    assert described["PipelineArn"].endswith(":pipeline/mixedcase")
    with pytest.raises(ClientError, match=r"Pipeline with name \(MixedCase\) already exists"):
        account.deploy_pipeline("MixedCase", [shell_step("A", "true")])


def test_a_changed_pipeline_runs_as_changed(account: Account) -> None:
    account.deploy_pipeline("changed", [shell_step("Old", "true")])
    described = account.sagemaker.describe_pipeline(PipelineName="changed")
    definition = described["PipelineDefinition"].replace('"Old"', '"New"')
    account.sagemaker.update_pipeline(PipelineName="changed", PipelineDefinition=definition)
    assert list(account.steps(account.execute("changed"))) == ["New"]


def test_an_arn_of_another_region_or_account_is_not_this_ones(account: Account) -> None:
    """IAM was asked about the ARN's text: what is found must have that ARN."""
    account.deploy_pipeline("own-arn", [shell_step("A", "true")])
    group = account.sagemaker.create_model_package_group(ModelPackageGroupName="own-arn")
    pipeline = account.sagemaker.describe_pipeline(PipelineName="own-arn")
    for noun, describe, arn in (
        ("Pipeline", account.sagemaker.describe_pipeline, pipeline["PipelineArn"]),
        (
            "ModelPackageGroup",
            account.sagemaker.describe_model_package_group,
            group["ModelPackageGroupArn"],
        ),
    ):
        assert describe(**{f"{noun}Name": arn})
        for other in (arn.replace("us-east-1", "eu-west-1"), arn.replace("own", "OWN")):
            with pytest.raises(ClientError, match="does not exist"):
                describe(**{f"{noun}Name": other})


@dataclass
class Core:
    """The part of the service's core that looking at documents needs."""

    store: Store


class Counted(dict[str, Any]):
    """A document; counts the copies of all."""

    copies = 0

    def __deepcopy__(self, _memo: object) -> "Counted":
        Counted.copies += 1
        return self


def test_what_is_not_shown_is_neither_read_nor_copied() -> None:
    core: Any = Core(Store())
    models = [Counted(), *(Counted(ModelName=f"m-{number}", Containers=[]) for number in range(9))]
    for number, model in enumerate(models):  # the first one cannot be read
        core.store.create("model", str(number), model, ValueError)
        execution = Counted(PipelineExecutionArn=f"arn/{number}")
        core.store.create(KIND, str(number), execution, ValueError)
    Counted.copies = 0
    assert len(Models(core).list({"MaxResults": 5})["Models"]) == 5
    assert Counted.copies == 0
    assert Executions(core, None).describe({"PipelineExecutionArn": "arn/2"})  # type: ignore[arg-type]
    assert Counted.copies == 1
