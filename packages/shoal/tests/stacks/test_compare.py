"""The function that compares with the approved version is there only for gates that need it."""

from __future__ import annotations

import pytest
from aws_cdk.assertions import Template

from tests.stacks.conftest import MakeVariant
from tests.stacks.reading import definition, resources, statements

GATE = {"metric": "accuracy", "not_worse_than": "approved", "direction": "higher"}
PREFIX = "shoal-mnist-compared-us-east-1-"


@pytest.fixture(scope="module")
def compared(make_variant: MakeVariant) -> Template:
    stage = make_variant("compared", evaluation={"gates": [GATE]})
    return Template.from_stack(stage.workloads[0].pipeline)


def _functions(template: Template) -> set[str]:
    return {
        each["Properties"]["FunctionName"].rpartition("-")[2]
        for each in resources(template, "AWS::Lambda::Function").values()
    }


def test_only_a_gate_against_the_registry_makes_the_function(
    pipeline: Template, compared: Template
) -> None:
    assert _functions(compared) - _functions(pipeline) == {"compare"}
    assert "Compare" in [step["Name"] for step in definition(compared)["Steps"]]


def test_it_reads_its_own_group_and_nothing_that_a_job_may_write(compared: Template) -> None:
    granted = {
        sid: (each["Action"], str(each["Resource"]))
        for sid, each in statements(compared, PREFIX + "compare").items()
    }
    assert granted.keys() == {"WriteOwnLog", "ListPackages", "SeePackages"}
    assert granted["SeePackages"][0] == "sagemaker:DescribeModelPackage"
    assert granted["SeePackages"][1].endswith("model-package/shoal-mnist-compared/*")


def test_the_pipeline_may_call_it(compared: Template) -> None:
    call = statements(compared, PREFIX + "pipeline")["CallFunctions"]
    assert "function:shoal-mnist-compared-compare" in str(call["Resource"])
