"""Requests of real clients that moto would take for others."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account, unique


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
