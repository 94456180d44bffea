"""Parameters of an execution, checked before anything starts."""

from __future__ import annotations

import pytest

from shoal.errors import ParameterError
from shoal.settings.loading.loader import load_environment
from shoal.verbs.parameters import check_declared, check_values, parse_parameters
from tests.repository import ROOT

DEV = load_environment("dev", ROOT)
ASSETS = f"s3://cdk-hnb659fds-assets-{DEV.account}-{DEV.region}"


@pytest.mark.parametrize(
    ("name", "value", "mistake"),
    [
        ("MinAccuracy", "nan", "is not allowed; it must be a finite number"),
        ("MinAccuracy", "-inf", "is not allowed; it must be a finite number"),
        ("InstanceCount", "0", "is not allowed; it must be 1 or more"),
        ("Epochs", "0", "is refused by the script: 0 is not a positive number"),
        ("BatchSize", "-1", "is refused by the script: -1 is not a positive number"),
    ],
)
def test_a_value_that_fails_in_the_job_is_refused(name: str, value: str, mistake: str) -> None:
    with pytest.raises(ParameterError, match=f"^parameter '{name}': '{value}' {mistake}$"):
        check_values(DEV, {name: value}, ROOT)


def test_a_parameter_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"^parameter 'Epochs' is given twice; give it once$"):
        parse_parameters(("Epochs=1", "Epochs=2"))


def test_an_instance_type_that_the_role_would_refuse_is_refused() -> None:
    says = r"'ml\.p5\.48xlarge' is none that the pipeline's role"
    with pytest.raises(ParameterError, match=says):
        check_values(DEV, {"InstanceType": "ml.p5.48xlarge"}, ROOT)
    check_values(DEV, {"InstanceType": DEV.training.instance_type}, ROOT)


@pytest.mark.parametrize("uri", ["s3://nope/nope", "", f"{ASSETS}.gz", f"{ASSETS}/code.zip"])
def test_code_that_no_job_may_read_is_refused(uri: str) -> None:
    with pytest.raises(ParameterError, match="is no code archive that a job may read"):
        check_values(DEV, {"CodeUri": uri}, ROOT)


def test_a_code_archive_of_the_bootstraps_bucket_is_taken() -> None:
    check_values(DEV, {"CodeUri": f"{ASSETS}/0123.tar.gz"}, ROOT)


def test_a_users_own_pipeline_may_mean_something_else_by_the_same_names() -> None:
    own = DEV.model_copy(update={"pipeline": "examples.sdk_pipeline:pipeline"})
    check_values(own, {"MinAccuracy": "95", "Epochs": "0"}, ROOT)


def test_values_that_can_run_are_taken() -> None:
    parameters = {"MinAccuracy": "0.5", "Epochs": "1", "LearningRate": "1e-3"}
    check_declared(DEV, parameters, ROOT)
    check_values(DEV, parameters, ROOT)
