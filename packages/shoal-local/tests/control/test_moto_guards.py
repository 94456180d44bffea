"""Requests of real clients that moto would answer with a 500 or with a success that is none."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account, unique


@pytest.mark.parametrize(
    ("service", "operation", "request_", "code"),
    [
        ("ec2", "delete_nat_gateway", {"NatGatewayId": "nat-1"}, "NatGatewayNotFound"),
        ("ec2", "delete_security_group", {"GroupName": "default"}, "by GroupId only"),
        (
            "ecr",
            "put_image",
            {"repositoryName": "none", "imageManifest": "{}"},
            "RepositoryNotFoundException",
        ),
        ("sqs", "create_queue", {"QueueName": "q", "Attributes": {"Policy": "[]"}}, "Policy"),
    ],
)
def test_a_mistake_is_an_error_of_aws(
    account: Account, service: str, operation: str, request_: dict[str, Any], code: str
) -> None:
    with pytest.raises(ClientError, match=code) as refusal:
        getattr(account.client(service), operation)(**request_)
    assert refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_an_aborted_upload_takes_no_part_and_is_not_completed(account: Account) -> None:
    s3, bucket = account.client("s3"), unique("uploads")
    s3.create_bucket(Bucket=bucket)
    upload = {"Bucket": bucket, "Key": "key"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    s3.abort_multipart_upload(**upload)
    with pytest.raises(s3.exceptions.NoSuchUpload):
        s3.upload_part(**upload, PartNumber=1, Body=b"part")
    parts = {"Parts": [{"PartNumber": 1, "ETag": "etag"}]}
    with pytest.raises(s3.exceptions.NoSuchUpload):
        s3.complete_multipart_upload(**upload, MultipartUpload=parts)


def test_an_operation_that_moto_takes_for_another_is_refused_and_changes_nothing(
    account: Account,
) -> None:
    s3, bucket = account.client("s3"), unique("kept")
    s3.create_bucket(Bucket=bucket)
    with pytest.raises(ClientError, match="does not emulate s3 DeleteBucketMetricsConfiguration"):
        s3.delete_bucket_metrics_configuration(Bucket=bucket, Id="metrics")
    with pytest.raises(ClientError, match="does not emulate s3 RenameObject"):
        s3.rename_object(Bucket=bucket, Key="new", RenameSource="old")
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


METRIC = {"MetricName": "m", "Namespace": "n", "Period": 60, "Statistic": "Sum", "Threshold": 1}
QUERY = {"Id": "q", "MetricStat": {"Metric": {"MetricName": "m"}, "Period": 60, "Stat": "Sum"}}


@pytest.mark.parametrize(
    ("alarm", "missing"),
    [
        ({name: value for name, value in METRIC.items() if name != "Namespace"}, "Namespace"),
        ({name: value for name, value in METRIC.items() if name != "Threshold"}, "Threshold"),
        ({"Threshold": 1}, "Metrics"),
        ({"Threshold": 1, "Metrics": [QUERY]}, "Namespace"),
    ],
)
def test_an_alarm_without_what_it_is_evaluated_by_is_refused(
    account: Account, alarm: dict[str, Any], missing: str
) -> None:
    cloudwatch, name = account.client("cloudwatch"), unique("alarm")
    with pytest.raises(ClientError, match=f"The parameter {missing} is required"):
        cloudwatch.put_metric_alarm(
            AlarmName=name,
            ComparisonOperator="GreaterThanThreshold",
            EvaluationPeriods=1,
            **alarm,
        )
    assert cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"] == []


def test_a_prefix_of_queues_is_no_regular_expression(account: Account) -> None:
    sqs, prefix = account.client("sqs"), f"{unique('prefix')}-"
    url = sqs.create_queue(QueueName=f"{prefix}1")["QueueUrl"]
    assert sqs.list_queues(QueueNamePrefix=prefix)["QueueUrls"] == [url]
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=f"{prefix}.")
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="?")
