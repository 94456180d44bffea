"""The pipeline that scores, as SageMaker gets it."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.pipelines.scoring import scoring_pipeline
from shoal.pipelines.validation import shapes
from shoal.settings.names import Names
from shoal.settings.sections.scoring import Scoring
from tests.pipelines.inputs import environment

KEY = "arn:aws:kms:us-east-1:111122223333:key/k"
VPC = {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}


def definition(**keys: Any) -> dict[str, Any]:
    settings = Scoring(**keys)
    names = Names(environment().model_copy(update={"scoring": settings})).scoring
    return scoring_pipeline(names, settings, key_arn=KEY, vpc=VPC).to_dict()


@pytest.mark.parametrize(
    ("keys", "version", "processing"),
    [
        ({}, "newest", None),
        ({"version": 3, "join": "input"}, "3", {"JoinSource": "Input"}),
        ({"split": "none", "content_type": "application/json"}, "newest", None),
    ],
)
def test_every_request_is_one_that_sagemaker_takes(
    keys: dict[str, Any], version: str, processing: dict[str, str] | None
) -> None:
    document = definition(**keys)
    shapes.check(document)
    find, model, score, teardown = document["Steps"]
    data, wanted = document["Parameters"]
    assert (data["DefaultValue"][-6:], wanted["DefaultValue"]) == ("score/", version)
    assert find["Arguments"]["version"] == {"Get": "Parameters.ModelVersion"}
    assert list(model["Arguments"]["PrimaryContainer"]) == ["ModelPackageName"]
    assert score["Arguments"].get("DataProcessing") == processing
    assert score["Arguments"]["TransformInput"]["SplitType"] == keys.get("split", "Line").title()
    tags = {each["Key"]: each["Value"] for each in score["Arguments"]["Tags"]}
    assert str(tags["shoal:pipeline"]).endswith("-score")
    assert teardown["DependsOn"] == ["Score"]
