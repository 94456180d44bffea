"""The types that an execution may choose instead are checked as if they were configured."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.pipelines.checks.check import check
from shoal.pipelines.limits import limits
from shoal.settings.parsing.errors import ConfigError
from tests.pipelines.inputs import changed

CANNOT_RUN = 'training.other_instance_types = "{}": cannot run there: '
TORCHRUN = {"strategy": "torchrun", "custom_mpi_options": ""}


def test_a_type_that_runs_the_same_request_is_accepted_and_allowed_to_the_role() -> None:
    types = ("ml.p4d.24xlarge", "ml.p4de.24xlarge")
    definition = check(changed(training={"other_instance_types": types[1:]})).definition
    (parameter,) = [each for each in definition["Parameters"] if each["Name"] == "InstanceType"]
    assert parameter["EnumValues"] == list(types)
    allowed = limits(definition, "Training")
    assert allowed is not None
    assert allowed.instance_types == types


@pytest.mark.parametrize(
    ("other", "keys", "expected"),
    [
        ("ml.p4d.99xlarge", {}, f"{CANNOT_RUN.format('ml.p4d.99xlarge')}is not one of"),
        ("ml.m5.xlarge", {}, CANNOT_RUN.format("ml.m5.xlarge")),
        (
            "ml.g5.xlarge",
            TORCHRUN,
            "needs other Environment than ml.p4d.24xlarge; give it an environment of its own",
        ),
    ],
)
def test_a_type_that_cannot_run_the_same_request_is_one_line(
    other: str, keys: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check(changed(training={"other_instance_types": [other], **keys}))
    (line,) = str(caught.value).splitlines()
    assert expected in line
