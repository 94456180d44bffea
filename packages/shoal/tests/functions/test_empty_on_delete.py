"""The custom resource: empties what carries the tag, on Delete only, and answers CloudFormation in
every case.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_kit.tables import rows
from shoal_local.testing import emulator
from tests.functions.invocation import Request, answer_of, serving

BUCKET = "shoal-mnist-dev-data-111122223333-us-east-1"
GROUP_ARN = "arn:aws:sagemaker:us-east-1:111122223333:model-package-group/shoal-mnist-dev"
TAG = {"Key": "shoal:empty-on-delete", "Value": "true"}


@pytest.fixture
def s3(client: Callable[[str], Any]) -> Any:
    """Return a client of an account with one versioned bucket with the tag, an object in two
    versions, and a deleted one.
    """
    s3 = client("s3")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    s3.put_bucket_tagging(Bucket=BUCKET, Tagging={"TagSet": [TAG]})
    for body in (b"first", b"second"):
        s3.put_object(Bucket=BUCKET, Key="datasets/a", Body=body)
    s3.put_object(Bucket=BUCKET, Key="datasets/b", Body=b"")
    s3.delete_object(Bucket=BUCKET, Key="datasets/b")
    return s3


def _versions(s3: Any) -> int:
    page = s3.list_object_versions(Bucket=BUCKET)
    return len(page.get("Versions", [])) + len(page.get("DeleteMarkers", []))


def _request(
    resource_type: str,
    properties: dict[str, str],
    url: str,
    request_type: str = "Delete",
    remaining_ms: int = 60_000,
) -> dict[str, Any]:
    """Make the custom resource request; returns CloudFormation's answer."""
    event = {
        "RequestType": request_type,
        "ResourceType": resource_type,
        "ResourceProperties": properties,
        "StackId": "arn:aws:cloudformation:us-east-1:111122223333:stack/shoal-mnist-dev-data/1",
        "LogicalResourceId": "DataBucket",
    }
    return answer_of("empty_on_delete", event, endpoint_url=url, remaining_ms=remaining_ms)


def _empty_bucket(url: str, **how: Any) -> dict[str, Any]:
    return _request("Custom::EmptyBucket", {"BucketName": BUCKET}, url, **how)


def _empty_group(url: str) -> dict[str, Any]:
    properties = {"ModelPackageGroupName": "shoal-mnist-dev", "ModelPackageGroupArn": GROUP_ARN}
    return _request("Custom::EmptyModelPackageGroup", properties, url)


def test_more_versions_than_a_page_has_are_removed(s3: Any, moto_url: str) -> None:
    keys = [f"datasets/{number}" for number in range(50)]
    for key in keys:
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"")
    for _ in range(20):  # one marker a key, each time
        s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys]})
    assert s3.list_object_versions(Bucket=BUCKET)["IsTruncated"]
    assert _empty_bucket(moto_url)["Status"] == "SUCCESS"
    assert _versions(s3) == 0


def test_delete_removes_every_version_and_delete_marker_so_that_the_bucket_can_go(
    s3: Any, moto_url: str
) -> None:
    """One that is gone counts as empty."""
    assert _empty_bucket(moto_url)["Status"] == "SUCCESS"
    assert _versions(s3) == 0
    s3.delete_bucket(Bucket=BUCKET)
    assert s3.list_buckets()["Buckets"] == []
    assert _empty_bucket(moto_url)["Status"] == "SUCCESS"


def test_keys_that_xml_has_no_place_for_are_removed_too(tmp_path: Path) -> None:
    with emulator(tmp_path) as local:
        s3 = local.account.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_bucket_tagging(Bucket=BUCKET, Tagging={"TagSet": [TAG]})
        for key in ("a\x1bb", "a\rb", "ab"):
            s3.put_object(Bucket=BUCKET, Key=key, Body=b"")
        assert _empty_bucket(local.account.endpoint)["Status"] == "SUCCESS"
        s3.delete_bucket(Bucket=BUCKET)


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_create_and_update_touch_nothing(s3: Any, moto_url: str, request_type: str) -> None:
    assert _empty_bucket(moto_url, request_type=request_type)["Status"] == "SUCCESS"
    assert _versions(s3) == 4


def test_a_bucket_that_lost_the_tag_keeps_its_data(s3: Any, moto_url: str) -> None:
    s3.delete_bucket_tagging(Bucket=BUCKET)
    assert _empty_bucket(moto_url)["Status"] == "SUCCESS"
    assert _versions(s3) == 4


def test_the_bucket_is_closed_for_late_access_logs_and_keeps_its_policy(
    s3: Any, moto_url: str
) -> None:
    tls_only = {
        "Sid": "TlsOnly",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": f"arn:aws:s3:::{BUCKET}/*",
    }
    s3.put_bucket_policy(
        Bucket=BUCKET, Policy=json.dumps({"Version": "2012-10-17", "Statement": [tls_only]})
    )
    _empty_bucket(moto_url)
    statements = json.loads(s3.get_bucket_policy(Bucket=BUCKET)["Policy"])["Statement"]
    assert [(statement["Sid"], statement["Action"]) for statement in statements] == [
        ("TlsOnly", "s3:*"),
        ("ClosedBeforeDeletion", "s3:PutObject"),
    ]


def test_running_out_of_time_is_a_failure_that_says_how_to_go_on(s3: Any, moto_url: str) -> None:
    answer = _empty_bucket(moto_url, remaining_ms=1000)
    assert answer["Status"] == "FAILED"
    assert "delete the stack again" in answer["Reason"]


def test_the_answer_names_the_request_and_keeps_one_physical_id(s3: Any, moto_url: str) -> None:
    answers = [_empty_bucket(moto_url, request_type=each) for each in ("Create", "Delete")]
    assert {answer["PhysicalResourceId"] for answer in answers} == {
        f"{answers[0]['StackId']}/DataBucket"
    }
    assert answers[0]["RequestId"] == "request-1"


@pytest.mark.parametrize(("code", "status", "tries"), rows(__file__, "cases.yaml", "errors"))
def test_a_version_that_s3_could_not_delete_just_now_is_tried_again(
    code: str, status: str, tries: int
) -> None:
    """S3 says so of single keys in an answer that is no error, so boto3 repeats nothing."""
    deletions: list[str] = []

    def answer(request: Request) -> tuple[int, bytes]:
        query, done = request.path.partition("?")[2], len(deletions) > 1
        if query.startswith("delete"):
            deletions.append(query)
            error = f"<Error><Key>k</Key><Code>{code}</Code><Message>m</Message></Error>"
            return 200, f"<DeleteResult>{'' if done else error}</DeleteResult>".encode()
        tag = "<Tag><Key>shoal:empty-on-delete</Key><Value>true</Value></Tag>"
        version = "" if done else "<Version><Key>k</Key><VersionId>1</VersionId></Version>"
        return 200, {
            "tagging": f"<Tagging><TagSet>{tag}</TagSet></Tagging>",
            "policy": '{"Version": "2012-10-17", "Statement": []}',
            "versions": f"<ListVersionsResult>{version}</ListVersionsResult>",
        }[query.partition("&")[0]].encode()

    with serving(answer) as url:
        assert _empty_bucket(url)["Status"] == status
    assert len(deletions) == tries


class FakeRegistry:
    """Model packages of one group; refuses what SageMaker refuses."""

    def __init__(self, tags: list[dict[str, str]]) -> None:
        self.tags = tags
        self.packages = [f"{GROUP_ARN.replace('-group', '')}/{version}" for version in (1, 2)]

    def answer(self, request: Request) -> tuple[int, bytes]:
        operation = request.headers["X-Amz-Target"].removeprefix("SageMaker.")
        if operation == "DeleteModelPackage":
            self.packages.remove(json.loads(request.body)["ModelPackageName"])
            return 200, b"{}"
        common = {"CreationTime": 1_700_000_000, "ModelPackageStatus": "Completed"}
        packages = [{"ModelPackageArn": arn, **common} for arn in self.packages]
        answers = {
            "ListTags": {"Tags": self.tags},
            "ListModelPackages": {"ModelPackageSummaryList": packages},
        }
        return 200, json.dumps(answers[operation]).encode()


@pytest.mark.parametrize(
    ("tags", "left"), [([TAG], 0), ([], 2)], ids=["with the tag", "without the tag"]
)
def test_a_group_loses_its_packages_if_it_carries_the_tag(
    tags: list[dict[str, str]], left: int
) -> None:
    registry = FakeRegistry(tags)
    with serving(registry.answer) as url:
        assert _empty_group(url)["Status"] == "SUCCESS"
    assert len(registry.packages) == left


def test_a_refusal_reaches_cloudformation_with_its_message() -> None:
    refusal = json.dumps(
        {"__type": "AccessDeniedException", "message": "not authorized to perform ListTags"}
    ).encode()
    with serving(lambda _: (400, refusal)) as url:
        answer = _empty_group(url)
    assert answer["Status"] == "FAILED"
    assert "not authorized to perform ListTags" in answer["Reason"]
