"""What an evaluation measured is compared with the newest version that somebody approved."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from local_kit.tables import rows
from tests.functions.invocation import Outcome, invoke

GROUP = "shoal-prices-dev"
EVENT = {
    "model_package_group_name": GROUP,
    "value_of_rmse": 15.4,
    "direction_of_rmse": "lower",
    "tolerance_of_rmse": 0.5,
}


class Registry:
    """A group of versions, each with what Register keeps of its evaluation."""

    def __init__(self, url: str, sagemaker: Any) -> None:
        self.url, self._sagemaker = url, sagemaker
        self._sagemaker.create_model_package_group(ModelPackageGroupName=GROUP)

    def add(self, metadata: Mapping[str, str], approval: str = "Approved") -> None:
        """Register one more version, of whose evaluation the entry has `metadata`."""
        self._sagemaker.create_model_package(
            ModelPackageGroupName=GROUP,
            ModelApprovalStatus=approval,
            CustomerMetadataProperties={"execution_id": "abc", **metadata},
        )

    def compare(self, **changes: Any) -> Outcome:
        return invoke("compare", EVENT | changes, endpoint_url=self.url, module="compare")


def measured(**metrics: float) -> Mapping[str, str]:
    return {f"value_of_{name}": str(value) for name, value in metrics.items()}


@pytest.fixture
def registry(moto_url: str, client: Callable[[str], Any]) -> Registry:
    return Registry(moto_url, client("sagemaker"))


@pytest.mark.parametrize(
    ("direction", "value", "limit", "passes"), rows(__file__, "cases.yaml", "values")
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
        "value_of_rmse": "1000000000.0",
        "margin_of_rmse": 0.0,
        "limit_of_rmse": "any number",
        "reason_of_rmse": "no version is approved yet",
    }


@pytest.mark.parametrize("metadata", [{}, measured(mae=3), {"value_of_rmse": "low"}])
def test_a_number_that_the_approved_entry_lacks_is_no_limit_and_the_step_says_what_to_do(
    registry: Registry, metadata: Mapping[str, str]
) -> None:
    """So are versions that were registered before the gate was there."""
    registry.add(metadata)
    result = registry.compare().result
    assert result["limit_of_rmse"] == "any number"
    assert result["reason_of_rmse"] == (
        "version 1, approved, has no rmse in its registry entry; approve one that has, and it"
        " counts"
    )


def test_what_is_kept_is_the_limit_of_the_next(registry: Registry) -> None:
    first = registry.compare(value_of_rmse=1e-7).result
    registry.add({"value_of_rmse": first["value_of_rmse"]})
    second = registry.compare(value_of_rmse=2e-7, tolerance_of_rmse=0).result
    assert second["margin_of_rmse"] == -1e-7


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "1e999", "high", None, True, "1_0", "\uff11\uff10", 10**400]
)
def test_what_is_no_finite_number_passes_nothing(registry: Registry, value: Any) -> None:
    assert "rmse is" in registry.compare(value_of_rmse=value).error


@pytest.mark.parametrize(("approvals", "version", "found"), rows(__file__, "cases.yaml", "scoring"))
def test_the_version_that_scores_is_an_approved_one(
    registry: Registry, approvals: list[str], version: str, found: str | None
) -> None:
    for approval in approvals:
        registry.add({}, approval)
    event = {"model_package_group_name": GROUP, "version": version}
    outcome = invoke("compare", event, endpoint_url=registry.url, module="find")
    if found:
        assert outcome.result["version"] == found
        assert outcome.result["model_package_arn"].endswith(f"/{GROUP}/{found}")
    else:
        assert f"has no approved version {version}; approved: " in outcome.error
