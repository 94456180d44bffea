"""Names are computed, lower case, and fit what AWS allows."""

from __future__ import annotations

from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from tests.repository import ROOT

NAMES = Names(load_environment("dev", ROOT))


def test_everything_starts_with_project_and_environment() -> None:
    assert (NAMES.pipeline, NAMES.stack("data"), NAMES.function("teardown")) == (
        "shoal-mnist-dev",
        "shoal-mnist-dev-data",
        "shoal-mnist-dev-teardown",
    )


def test_buckets_carry_account_and_region_because_they_are_global() -> None:
    assert NAMES.bucket("artifacts") == "shoal-mnist-dev-artifacts-111122223333-us-east-1"


def test_the_pipelines_arn_is_lower_case_as_sagemaker_makes_it() -> None:
    assert NAMES.pipeline_arn == "arn:aws:sagemaker:us-east-1:111122223333:pipeline/shoal-mnist-dev"
