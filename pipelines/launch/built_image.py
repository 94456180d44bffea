"""A recipe that the user chose to have built for training in; why it cannot be the training image
out.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from config.errors import Problem
from config.settings import Training
from pipelines.launch import recipes

KEY = "training.build_image"


def problems_of(training: Training) -> Iterator[Problem]:
    """Only recipes in pipelines/launch/recipes.yaml are ever built."""
    name = training.build_image
    if name is None:
        return
    if name not in recipes.names():
        near = difflib.get_close_matches(name, recipes.names(), n=1)
        advice = (
            f"use {near[0]}"
            if near
            else "choose one, or add your own to images/ and pipelines/launch/recipes.yaml"
        )
        yield Problem(
            KEY, f"is not a recipe; these are: {', '.join(recipes.names())}", advice, name
        )
        return
    if training.image_uri is not None:
        yield Problem(
            KEY,
            "is not allowed together with training.image_uri: one image trains",
            "remove one of the two",
            name,
        )
    yield from _mismatches(training, recipes.recipe(name))


def _mismatches(training: Training, recipe: recipes.Recipe) -> Iterator[Problem]:
    fitting = [
        name for name in recipes.names() if recipes.recipe(name).framework == training.framework
    ]
    if recipe.framework != training.framework:
        message = f"is an image of {recipe.framework}, but framework is {training.framework}"
        yield Problem(
            KEY,
            message,
            f"use {' or '.join(fitting)}, or set framework: {recipe.framework}",
            recipe.name,
        )
    elif recipe.framework_version != training.framework_version:
        message = (
            f"contains {recipe.framework} {recipe.framework_version}, but framework_version is"
            f" {training.framework_version}"
        )
        yield Problem(
            KEY,
            message,
            f'set framework_version: "{recipe.framework_version}", or change the recipe',
            recipe.name,
        )
