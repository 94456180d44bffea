"""A recipe's name and a region in; its build arguments, from the tables of `pipelines.launch`, and the `docker build` command out."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from pipelines.launch import tables

HERE = Path(__file__).resolve().parent
TABLE = HERE.parent / "pipelines" / "launch" / "recipes.yaml"


class UnknownRecipeError(Exception):
    """There is no such recipe, or it cannot be built for that region."""


@cache
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return table


def names() -> list[str]:
    return sorted(_table())


def dockerfile_of(name: str) -> Path:
    return HERE / name / "Dockerfile"


def framework_of(name: str) -> str:
    """The framework inside the image of a recipe."""
    return str(_table()[name]["framework"])


def local_tag(name: str) -> str:
    """What the image is called where it was built; the emulator knows its repository by this name (emulator/images.yaml)."""
    return f"shoal-{name}:1"


def build_arguments(name: str, region: str) -> dict[str, str]:
    """Raises UnknownRecipeError."""
    if name not in _table():
        raise UnknownRecipeError(f"there is no recipe {name!r}; there are: {', '.join(names())}")
    recipe = _table()[name]
    own = {key: str(row["value"]) for key, row in recipe.get("arguments", {}).items()}
    if "version" not in recipe:
        return own
    account = tables.registry(region)
    if account is None:
        raise UnknownRecipeError(f"AWS has no registry in {region!r} that pipelines/launch/registries.yaml knows")
    return own | {"ACCOUNT": account, "REGION": region, "TAG": tables.image_tags(recipe["framework"])[recipe["version"]].training_gpu}


def build_command(name: str, region: str, tag: str) -> str:
    """Run it at the repository's root, logged in to the base image's registry."""
    arguments = [part for key, value in build_arguments(name, region).items() for part in ("--build-arg", f"{key}={value}")]
    code = f"code=training_code/{framework_of(name)}"
    contexts = ["--build-context", code] if "with-code" in dockerfile_of(name).read_text(encoding="utf-8") else []
    return shlex.join(["docker", "build", "--platform", "linux/amd64", *arguments, *contexts, "--tag", tag, f"images/{name}"])
