"""`training.build_image` takes known recipes; the tag of an image is its recipe's content. What
answers at an endpoint whose image nobody names is built too.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from shoal.launch import recipes, tables
from shoal.launch.recipes import ami_of, build_arguments, content_tag
from shoal.pipelines.validation import shapes
from shoal.settings.sections.serving import default_recipe
from shoal.settings.settings import Environment
from tests.pipelines.launch.shipped import launch
from tests.repository import ROOT

NAME = "pytorch-smddp"
TAG = content_tag(NAME, "us-east-1", ROOT)


@pytest.mark.parametrize("name", recipes.names(serves=False))
def test_every_recipe_that_trains_can_be_trained_with(name: str) -> None:
    recipe = recipes.recipe(name)
    version = recipe.framework_version
    strategy = "smddp" if version in tables.smddp_releases(recipe.framework) else "torchrun"
    keys: dict[str, Any] = {
        "framework": recipe.framework,
        "framework_version": version,
        "strategy": strategy,
    }
    launched = launch(build_image=name, **keys)
    assert launched.case.training.build_image == name


def test_horovod_runs_with_a_recipe_that_extends_an_image_with_it() -> None:
    keys = {"framework": "tensorflow", "framework_version": "2.11.0"}
    launched = launch(root=ROOT, strategy="horovod", build_image="tensorflow-smddp", **keys)
    assert launched.contract.label == "horovod"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "images" / NAME, tmp_path / "images" / NAME)
    return tmp_path


def test_horovod_runs_with_a_recipe_that_installs_it(repository: Path) -> None:
    (repository / "images" / NAME / "requirements.txt").write_text("horovod==0.28.1\n")
    launched = launch(
        root=repository, strategy="horovod", framework_version="2.3.0", build_image=NAME
    )
    assert launched.contract.label == "horovod"


def test_the_tag_is_the_same_for_the_same_recipe_elsewhere(repository: Path) -> None:
    assert content_tag(NAME, "us-east-1", repository) == TAG


@pytest.mark.parametrize("file", ["requirements.txt", "patches/new.txt"])
def test_the_tag_changes_with_every_file_of_the_recipe(repository: Path, file: str) -> None:
    path = repository / "images" / NAME / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("changed")
    assert content_tag(NAME, "us-east-1", repository) != TAG


def test_the_tag_changes_with_the_image_that_is_extended() -> None:
    assert content_tag(NAME, "eu-south-1", ROOT) != TAG


@pytest.mark.parametrize(
    ("keys", "recipe"),
    [
        ({}, "pytorch-serving"),
        ({"pipeline": "mine:pipeline"}, "pytorch-serving"),
        ({"endpoint": {"instance_type": "ml.g5.xlarge"}}, "pytorch-serving-gpu"),
        ({"endpoint": {"build_image": "pytorch-serving-gpu"}}, "pytorch-serving-gpu"),
        ({"endpoint": {"instance_type": "ml.p3.2xlarge"}}, None),
        ({"endpoint": {"build_image": "none"}}, None),
        ({"endpoint": {"image_uri": "mine/server:1"}}, None),
        ({"endpoint": "none"}, None),
        ({"training": {"framework": "tensorflow"}}, None),
        ({"region": "ca-west-1"}, None),
        ({"region": "mx-central-1"}, None),
    ],
)
def test_pytorch_is_served_by_a_patched_image_unless_the_file_says_otherwise(
    keys: dict[str, Any], recipe: str | None
) -> None:
    names = {"name": "dev", "workload": "mnist", "account": "111122223333"}
    environment = Environment.model_validate(names | keys)
    assert environment.built_images.get("endpoint") == recipe


@pytest.mark.parametrize("recipe", recipes.names())
def test_a_file_can_name_every_recipe(recipe: str) -> None:
    names = {"name": "dev", "workload": "mnist", "account": "111122223333"}
    use = "endpoint" if recipes.recipe(recipe).serves else "training"
    environment = Environment.model_validate(names | {use: {"build_image": recipe}})
    assert environment.built_images[use] == recipe


@pytest.mark.parametrize("instance_type", shapes.values_of("ProductionVariantInstanceType"))
def test_the_image_that_serves_by_default_fits_the_instances(instance_type: str) -> None:
    """Its GPUs have a CUDA that runs on them, and the instances the driver that it needs."""
    recipe, gpus = default_recipe(instance_type), tables.gpus(instance_type)
    if not tables.has_gpus(instance_type):
        assert recipe == "pytorch-serving"
        return
    cuda = float(tables.cuda_in(build_arguments("pytorch-serving-gpu", "us-east-1")["TAG"]) or 0)
    is_supported = gpus is None or gpus.last is None or cuda <= float(gpus.last)
    assert recipe == ("pytorch-serving-gpu" if is_supported else None)
    ami = ami_of(instance_type, "1.dkr.ecr.us-east-1.amazonaws.com/x-pytorch-serving-gpu@sha256:0")
    assert ami is not None
    assert int(float(tables.inference_amis()[ami])) == int(cuda)
