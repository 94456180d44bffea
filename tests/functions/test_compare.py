"""What an evaluation measured is compared with the newest version that somebody approved."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.functions.invocation import Outcome, invoke

GROUP, BUCKET = "shoal-houses-dev", "shoal-houses-dev-artifacts"
EVENT = {
    "model_package_group_name": GROUP,
    "value_of_rmse": 15.4,
    "direction_of_rmse": "lower",
    "tolerance_of_rmse": 0.5,
}


@pytest.fixture(scope="module")
def moto_url() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


class Registry:
    """A group of versions, each with the report of its evaluation."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._sagemaker, self._s3 = (
            boto3.client(
                service,
                endpoint_url=url,
                region_name="us-east-1",
                aws_access_key_id="111122223333",
                aws_secret_access_key="for-this-test",
            )
            for service in ("sagemaker", "s3")
        )
        self._s3.create_bucket(Bucket=BUCKET)
        self._sagemaker.create_model_package_group(ModelPackageGroupName=GROUP)

    def add(self, metrics: Any, approval: str = "Approved", report: bytes | None = None) -> None:
        """Register one more version that measured `metrics`."""
        count = len(self._s3.list_objects_v2(Bucket=BUCKET).get("Contents", []))
        key = f"evaluation/{count}/evaluation.json"
        content = json.dumps({"metrics": metrics}).encode() if report is None else report
        self._s3.put_object(Bucket=BUCKET, Key=key, Body=content)
        statistics = {"ContentType": "application/json", "S3Uri": f"s3://{BUCKET}/{key}"}
        self._sagemaker.create_model_package(
            ModelPackageGroupName=GROUP,
            ModelApprovalStatus=approval,
            ModelMetrics={"ModelQuality": {"Statistics": statistics}},
        )

    def compare(self, **changes: Any) -> Outcome:
        return invoke("compare", EVENT | changes, endpoint_url=self.url, module="compare")


def measured(**metrics: float) -> Mapping[str, Mapping[str, float]]:
    return {name: {"value": value} for name, value in metrics.items()}


@pytest.fixture
def registry(moto_url: str) -> Registry:
    reset = urllib.request.Request(f"{moto_url}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset).close()
    return Registry(moto_url)


@pytest.mark.parametrize(
    ("direction", "value", "limit", "passes"),
    [
        ("lower", 15.5, "at most 15.5", True),  # 15 + 0.5: on the limit
        ("lower", 15.51, "at most 15.5", False),
        ("higher", 14.5, "at least 14.5", True),
        ("higher", 14.49, "at least 14.5", False),
    ],
)
def test_a_value_may_be_worse_by_the_tolerance_and_no_more(
    registry: Registry, direction: str, value: float, limit: str, passes: bool
) -> None:
    registry.add(measured(rmse=15))
    result = registry.compare(value_of_rmse=value, direction_of_rmse=direction).result
    assert (result["margin_of_rmse"] >= 0) is passes
    assert (result["limit_of_rmse"], result["version"]) == (limit, "1")
    assert result["reason_of_rmse"] == "version 1, approved, has 15"


def test_the_newest_approved_version_counts_and_no_other(registry: Registry) -> None:
    registry.add(measured(rmse=10))
    registry.add(measured(rmse=20))
    registry.add(measured(rmse=5), "Rejected")
    registry.add(measured(rmse=1), "PendingManualApproval")
    assert registry.compare().result["reason_of_rmse"] == "version 2, approved, has 20"


def test_decimal_numbers_are_compared_as_they_are_written(registry: Registry) -> None:
    """In binary, 0.3 - 0.1 is less than 0.2."""
    registry.add(measured(rmse=0.1))
    assert registry.compare(value_of_rmse=0.3, tolerance_of_rmse=0.2).result["margin_of_rmse"] == 0


def test_without_an_approved_version_every_number_passes_and_the_step_says_so(
    registry: Registry,
) -> None:
    registry.add(measured(rmse=1), "PendingManualApproval")
    assert registry.compare(value_of_rmse=1e9).result == {
        "status": "Compared",
        "version": "none",
        "margin_of_rmse": 0.0,
        "limit_of_rmse": "any number",
        "reason_of_rmse": "no version is approved yet",
    }


@pytest.mark.parametrize("metrics", [{}, {"rmse": 3}, {"rmse": {"value": "low"}}, []])
def test_what_the_approved_version_did_not_measure_is_no_limit(
    registry: Registry, metrics: Any
) -> None:
    registry.add(metrics)
    result = registry.compare().result
    assert result["limit_of_rmse"] == "any number"
    assert result["reason_of_rmse"] == "version 1, approved, did not measure it"


@pytest.mark.parametrize("report", [b"<html>", b"[1]", b"{}"])
def test_a_report_that_cannot_be_read_fails_the_step(registry: Registry, report: bytes) -> None:
    registry.add({}, report=report)
    error = registry.compare().error
    assert error.startswith(
        "CompareError: the report of version 1, approved, cannot be read at s3:"
    )


@pytest.mark.parametrize("value", ["NaN", "Infinity", "high", None])
def test_what_is_no_finite_number_passes_nothing(registry: Registry, value: str | None) -> None:
    assert "rmse is" in registry.compare(value_of_rmse=value).error
