"""The examples of AWS's material that this project comes from, as environment files.

Today's tables accept each, or say why not. Instances, versions and images have disappeared since.
"""

import tempfile
from pathlib import Path

import pytest
import yaml

from local_kit.tables import table
from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from tests.repository import ROOT

TABLE = table(__file__, "seeds.yaml")
ACCEPTED, REFUSED = TABLE["accepted"], TABLE["refused"]
COMMON = {"workload": "mnist", "account": "111122223333", "region": "us-east-1"}


def example(name: str) -> Environment:
    document = {"name": name, **COMMON, **(ACCEPTED | REFUSED)[name]["file"]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.yaml")
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return load(path, f"environments/{name}.yaml", ROOT)


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_example_that_can_run_becomes_a_pipeline_that_starts_it(name: str) -> None:
    settings, (enabled, image) = example(name), ACCEPTED[name]["expected"]
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
    for line, reason in zip(lines, REFUSED[name]["expected"], strict=True):
        assert f"training.{reason}" in line or reason in line, line


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
