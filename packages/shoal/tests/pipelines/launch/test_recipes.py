"""`training.build_image` takes known recipes; the tag of an image is its recipe's content."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shoal.launch import recipes
from shoal.launch.recipes import content_tag
from tests.pipelines.launch.shipped import launch
from tests.repository import ROOT

NAME = "pytorch-smddp"
TAG = content_tag(NAME, "us-east-1", ROOT)


@pytest.mark.parametrize("name", recipes.names(serves=False))
def test_every_recipe_that_trains_can_be_trained_with(name: str) -> None:
    recipe = recipes.recipe(name)
    launched = launch(
        framework=recipe.framework, framework_version=recipe.framework_version, build_image=name
    )
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
