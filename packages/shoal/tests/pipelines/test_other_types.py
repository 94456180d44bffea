"""The types that an execution may choose instead are checked as if they were configured."""

from __future__ import annotations

import pytest

from shoal.pipelines.checks.check import check
from shoal.pipelines.limits import limits
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from tests.pipelines.inputs import environment


def _with(*others: str, instance_type: str = "ml.p4d.24xlarge") -> Environment:
    settings = environment()
    training = settings.training.model_copy(
        update={"instance_type": instance_type, "other_instance_types": others}
    )
    return settings.model_copy(update={"training": training})


def test_a_type_that_runs_the_same_request_is_accepted_as_the_parameter() -> None:
    settings = _with("ml.p4de.24xlarge")
    definition = check(settings).definition
    (parameter,) = [each for each in definition["Parameters"] if each["Name"] == "InstanceType"]
    assert parameter["EnumValues"] == ["ml.p4d.24xlarge", "ml.p4de.24xlarge"]


def test_the_pipelines_role_may_use_the_others_too() -> None:
    settings = _with("ml.p4de.24xlarge")
    allowed = limits(check(settings).definition, "Training")
    assert allowed is not None
    assert allowed.instance_types == ("ml.p4d.24xlarge", "ml.p4de.24xlarge")


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (
            "ml.p4d.99xlarge",
            'training.other_instance_types = "ml.p4d.99xlarge": cannot run there: is not one of',
        ),
        ("ml.m5.xlarge", 'training.other_instance_types = "ml.m5.xlarge": cannot run there: '),
    ],
)
def test_a_type_that_cannot_run_it_is_one_line(other: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(_with(other))
    (line,) = str(caught.value).splitlines()
    assert expected in line


def test_a_type_that_needs_another_request_is_one_line() -> None:
    settings = environment()
    training = settings.training.model_copy(
        update={
            "strategy": "torchrun",
            "instance_type": "ml.p4d.24xlarge",
            "other_instance_types": ("ml.g5.xlarge",),
            "custom_mpi_options": "",
        }
    )
    with pytest.raises(
        ConfigError,
        match=(
            r"needs other .*Environment.* than ml\.p4d\.24xlarge; give it an environment of its own"
        ),
    ):
        check(settings.model_copy(update={"training": training}))
