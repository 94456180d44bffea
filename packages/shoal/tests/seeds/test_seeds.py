"""The examples of AWS's material that this project comes from, as environment files.

Today's tables accept each, or say why not. The comment that opens each file says which example it
is. The material is of 2020 to 2023; instances, versions and images have disappeared since.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from tests.repository import ROOT
from tests.tables import table

FOLDER = Path(__file__).parent / "environments"
EXPECTED = table(__file__, "expected.yaml")
ACCEPTED: dict[str, tuple[str | None, str]] = EXPECTED["accepted"]
REFUSED: dict[str, list[str]] = EXPECTED["refused"]


def example(name: str) -> Environment:
    return load(FOLDER / f"{name}.yaml", f"environments/{name}.yaml", ROOT)


def test_every_example_is_accepted_or_refused_here() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.yaml")) == sorted([*ACCEPTED, *REFUSED])


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_example_that_can_run_becomes_a_pipeline_that_starts_it(name: str) -> None:
    settings, (enabled, image) = example(name), ACCEPTED[name]
    train = check(settings).definition["Steps"][0]["Arguments"]
    switches = {
        key: value for key, value in train["HyperParameters"].items() if key.endswith("_enabled")
    }
    assert switches == ({enabled: "true"} if enabled else {})
    assert image in train["AlgorithmSpecification"]["TrainingImage"]


@pytest.mark.parametrize("name", REFUSED)
def test_an_example_that_cannot_run_is_refused_with_the_true_reason(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(example(name))
    lines = str(caught.value).splitlines()
    assert len(lines) == len(REFUSED[name])
    for line, reason in zip(lines, REFUSED[name], strict=True):
        assert f"training.{reason}" in line or reason in line, line


@pytest.mark.parametrize(
    ("name", "image", "title", "smddp"),
    [
        (
            "pytorch-1-8-1-p3dn",
            "pytorch-training:1.8.1-gpu-py36-cu111-ubuntu18.04",
            "PyTorch 1.8.1",
            "1.2.3",
        ),
        ("pytorch-1-6", None, "PyTorch 1.6.0", "1.0.0"),
        (
            "tf-2-4-1-p3dn",
            "tensorflow-training:2.4.1-gpu-py37-cu110-ubuntu18.04",
            "TensorFlow 2.4.1",
            "1.2.0",
        ),
    ],
)
def test_with_a_script_of_that_time_the_reason_is_that_aws_no_longer_lists_its_smddp(
    name: str, image: str | None, title: str, smddp: str
) -> None:
    settings = example(name)
    uri = f"763104351884.dkr.ecr.us-east-1.amazonaws.com/{image}" if image else None
    theirs: dict[str, Any] = {"source_dir": "their_code", "min_python": None}
    changes = theirs | {"image_uri": uri, "instance_type": "ml.p3dn.24xlarge"}
    with pytest.raises(ConfigError) as caught:
        check(
            settings.model_copy(update={"training": settings.training.model_copy(update=changes)})
        )
    (line,) = str(caught.value).splitlines()
    assert (
        f"AWS's page no longer lists smddp for {title} (AWS's guide of 2023: version {smddp}); it"
        " lists it for: " in line
    )


def test_what_torchrun_replaces_is_told() -> None:
    notices = check(example("fallback")).notices
    assert any(
        notice.startswith("smddp -> torchrun: training.instance_type = ml.p3.16xlarge")
        for notice in notices
    )


@pytest.mark.parametrize("name", ["extended-today", "own-container"])
def test_an_image_of_ones_own_is_told_what_it_must_set(name: str) -> None:
    assert any(
        "must set SAGEMAKER_TRAINING_MODULE" in notice for notice in check(example(name)).notices
    )


def test_instances_are_co_located_in_one_subnet() -> None:
    settings = example("co-located")
    train = check(settings).definition["Steps"][0]["Arguments"]
    assert (train["ResourceConfig"]["InstanceCount"], len(train["VpcConfig"]["Subnets"])) == (
        {"Get": "Parameters.InstanceCount"},
        1,
    )
