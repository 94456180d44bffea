"""Requests whose answers by AWS are known.

A row names where its answer is known from: an answer of AWS that LocalStack recorded
(tests/aws/services/**/*.snapshot.json of its repository, by the test's name), or a page of AWS's
documentation. Recordings of `shoal prove` are replayed (recorded/DATE-REGION.jsonl; shoal-local's
only shows the form): what was asked before anything was made is answered here with the same status,
the same error code and the same form.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore import xform_name
from botocore.exceptions import ClientError

from local_kit.control import Account, refused, register_version, running, unique

SOURCE = "def handler(event, context):\n    return event\n"
QUEUE = "arn:aws:sqs:us-east-1:111122223333:nothing"


def test_only_the_latest_version_is_there_and_a_deletion_has_no_body(account: Account) -> None:
    """Recorded: test_lambda_api, delete_response."""
    client, name = account.client("lambda"), account.function(SOURCE)
    with pytest.raises(ClientError, match=f"has no versions or aliases of functions: {name}:1221"):
        client.get_function(FunctionName=name, Qualifier="1221")
    deleted = client.delete_function(FunctionName=name)
    assert deleted["ResponseMetadata"]["HTTPStatusCode"] == 204


def test_a_mapping_needs_a_queue_and_a_role(account: Account) -> None:
    """Recorded: test_esm_with_not_existing_sqs_queue; developer guide, using Lambda with Amazon
    SQS.
    """
    client, (_, queue) = account.client("lambda"), account.queue()
    function = account.function(SOURCE, Role=account.consumer_role())
    mapping = {"FunctionName": function, "EventSourceArn": queue}
    for wrong in ({"EventSourceArn": QUEUE}, {"FunctionName": account.function(SOURCE)}):
        with pytest.raises(client.exceptions.InvalidParameterValueException):
            client.create_event_source_mapping(**{**mapping, **wrong})


FOLDER = Path(__file__).with_name("recorded")
BEFORE = {"account", "doctor"}
"""Lines of a proof that find an empty account."""


def records() -> Iterator[Any]:
    for file in sorted(FOLDER.glob("*.jsonl")):
        for number, text in enumerate(file.read_text().splitlines(), 1):
            record = json.loads(text)
            if record["line"] in BEFORE and "REDACTED" not in json.dumps(record["params"]):
                what = f"{file.stem}:{number} {record['service']} {record['operation']}"
                yield pytest.param(record, id=what)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with running(tmp_path_factory.mktemp("emulator")) as account:
        yield account


def form(value: Any) -> Any:
    """Return the keys and the kinds of what is in an answer, of a list those of its first item."""
    if isinstance(value, dict):
        return {key: form(each) for key, each in value.items()}
    return [form(each) for each in value[:1]] if isinstance(value, list) else None


@pytest.mark.parametrize("record", [*records()])
def test_an_empty_account_is_told_what_aws_told(empty: Account, record: dict[str, Any]) -> None:
    call = getattr(empty.client(record["service"]), xform_name(record["operation"]))
    try:
        answer = call(**record["params"])
    except ClientError as error:
        answer = error.response
    status = answer.pop("ResponseMetadata")["HTTPStatusCode"]
    code = answer.get("Error", {}).get("Code")
    assert (status, code) == (record["status"], record["error"])
    for each in ("Owner", "UserId"):  # a recording has none
        answer.pop(each, None)
    assert code or form(answer) == form(record["answer"])


AWS, REPOSITORY, TAG = "763104351884", "pytorch-inference", "2.3.0-cpu-py311-ubuntu20.04-sagemaker"
CONTAINER = {
    "Image": f"{AWS}.dkr.ecr.us-east-1.amazonaws.com/{REPOSITORY}:{TAG}",
    "ModelDataUrl": "s3://bucket/model.tar.gz",
}


def test_an_image_that_a_runtime_stands_for_is_known_by_the_digest_of_its_tag_and_no_other(
    account: Account,
) -> None:
    def images(**image: str) -> list[dict[str, Any]]:
        request = {"registryId": AWS, "repositoryName": REPOSITORY, "imageIds": [image]}
        answer = account.client("ecr").batch_get_image(**request)
        return [entry["imageId"] for entry in answer["images"]]

    (image,) = images(imageTag=TAG)
    digest = {"imageDigest": image["imageDigest"]}
    assert images(**digest) == [digest]
    assert images(imageDigest=f"sha256:{'0' * 64}") == []


def test_a_repository_that_is_not_there_is_refused_as_ecr_does(account: Account) -> None:
    request = {"repositoryName": "none", "imageIds": [{"imageTag": "1"}]}
    code, _ = refused(account.client("ecr").batch_get_image, **request)
    assert code == "RepositoryNotFoundException"


def test_the_registry_notes_who_made_a_version_and_who_changed_it(account: Account) -> None:
    sagemaker, group = account.client("sagemaker"), unique("group")
    sagemaker.create_model_package_group(ModelPackageGroupName=group)
    arn, root = register_version(sagemaker, group, CONTAINER), "arn:aws:iam::111122223333:root"
    approver = account.role({"AWS": root})
    account.as_role("sagemaker", approver).update_model_package(
        ModelPackageArn=arn, ModelApprovalStatus="Approved"
    )
    version = sagemaker.describe_model_package(ModelPackageName=arn)
    assert version["CreatedBy"]["IamIdentity"]["Arn"] == root
    session = f":assumed-role/{approver.rpartition('/')[2]}/tests"
    assert version["LastModifiedBy"]["IamIdentity"]["Arn"].endswith(session)


def test_an_operation_that_moto_takes_for_another_is_refused_and_changes_nothing(
    account: Account,
) -> None:
    s3, bucket = account.client("s3"), account.bucket()
    with pytest.raises(ClientError, match="does not emulate s3 DeleteBucketMetricsConfiguration"):
        s3.delete_bucket_metrics_configuration(Bucket=bucket, Id="metrics")
    with pytest.raises(ClientError, match="does not emulate s3 RenameObject"):
        s3.rename_object(Bucket=bucket, Key="new", RenameSource="old")
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
