"""`training.build_image` takes known recipes that fit, one image each; the tag is the recipe's
content.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from shoal.launch import Horovod, recipes, resolve
from shoal.launch.recipes import content_tag
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.settings import Framework, Strategy, Training
from tests.repository import ROOT

BROKEN: list[tuple[dict[str, Any], str]] = [
    (
        {"build_image": "pytorch-smdpp"},
        "is not a recipe; these are: own-container, pytorch-smddp, tensorflow-smddp",
    ),
    (
        {"build_image": "pytorch-smddp", "image_uri": "registry/image:1"},
        "is not allowed together with training.image_uri",
    ),
    ({"build_image": "tensorflow-smddp"}, "is an image of tensorflow, but framework is pytorch"),
    (
        {"build_image": "pytorch-smddp", "framework_version": "2.2.0"},
        "contains pytorch 2.3.0, but framework_version is 2.2.0",
    ),
    (
        {"build_image": "own-container", "framework_version": "2.2.0"},
        "contains pytorch 2.3.0, but framework_version is 2.2.0",
    ),
]


@pytest.mark.parametrize(("keys", "message"), BROKEN, ids=[message[:40] for _, message in BROKEN])
def test_an_image_that_cannot_be_trained_with_is_one_problem(
    keys: dict[str, Any], message: str
) -> None:
    training = Training(**{"framework_version": "2.3.0", **keys})
    with pytest.raises(LaunchError) as caught:
        resolve(training, "us-east-1")
    (problem,) = caught.value.problems
    assert (problem.key, problem.value) == ("training.build_image", keys["build_image"])
    assert message in problem.message


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_can_be_trained_with(name: str) -> None:
    recipe = recipes.recipe(name)
    training = Training.model_validate(
        {
            "framework": recipe.framework,
            "framework_version": recipe.framework_version,
            "build_image": name,
        },
        strict=False,
    )
    assert resolve(training, "us-east-1").case.training.build_image == name


@pytest.mark.parametrize("name", ["pytorch-smddp", "own-container"])
def test_horovod_is_refused_with_a_recipe_that_has_none(name: str) -> None:
    training = Training(strategy=Strategy.HOROVOD, framework_version="2.3.0", build_image=name)
    with pytest.raises(
        LaunchError, match=f'build_image = "{name}": the recipe does not install Horovod'
    ):
        resolve(training, "us-east-1", root=ROOT)


def test_horovod_runs_with_a_recipe_that_extends_an_image_with_it() -> None:
    keys: dict[str, Any] = {
        "framework": Framework.TENSORFLOW,
        "framework_version": "2.11.0",
        "build_image": "tensorflow-smddp",
    }
    assert (
        type(resolve(Training(strategy=Strategy.HOROVOD, **keys), "us-east-1", root=ROOT).contract)
        is Horovod
    )


def test_horovod_runs_with_a_recipe_that_installs_it(repository: Path) -> None:
    (repository / "images" / "pytorch-smddp" / "requirements.txt").write_text(
        "horovod==0.28.1\n", encoding="utf-8"
    )
    training = Training(
        strategy=Strategy.HOROVOD, framework_version="2.3.0", build_image="pytorch-smddp"
    )
    assert type(resolve(training, "us-east-1", root=repository).contract) is Horovod


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "images" / "pytorch-smddp", tmp_path / "images" / "pytorch-smddp")
    return tmp_path


def test_the_tag_is_the_same_for_the_same_recipe_elsewhere(repository: Path) -> None:
    assert content_tag("pytorch-smddp", "us-east-1", repository) == content_tag(
        "pytorch-smddp", "us-east-1", ROOT
    )


@pytest.mark.parametrize("file", ["requirements.txt", "patches/new.txt"])
def test_the_tag_changes_with_every_file_of_the_recipe(repository: Path, file: str) -> None:
    path = repository / "images" / "pytorch-smddp" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("changed")
    assert content_tag("pytorch-smddp", "us-east-1", repository) != content_tag(
        "pytorch-smddp", "us-east-1", ROOT
    )


def test_the_tag_changes_with_the_image_that_is_extended() -> None:
    assert content_tag("pytorch-smddp", "eu-south-1", ROOT) != content_tag(
        "pytorch-smddp", "us-east-1", ROOT
    )
