"""The build arguments of the images in `images/`, and a tag of all that goes into a build."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.launch import tables
from shoal.top_level import TOP_LEVEL

FOLDER = "images"
TAG_LENGTH = 32  # hexadecimal digits of SHA-256; ECR allows 128 characters (botocore, ecr ImageTag)


class UnknownRecipeError(Exception):
    """There is no such recipe, or it cannot be built for that region."""


@dataclass(frozen=True)
class Recipe:
    """A row of recipes.yaml."""

    name: str
    framework: str
    version: str | None = None
    """Version of the framework in AWS's image that the recipe extends; None if it extends none."""
    device: str = "gpu"
    """Which of AWS's images of that version it extends: gpu or cpu."""
    folder: str = ""
    """Its folder in `images/`; left out, its name."""
    serves: bool = False
    """Whether it answers at an endpoint, for `endpoint.build_image`; else it trains."""
    local: bool = False
    """Whether shoal-local has a runtime with its packages, which stands for the image."""
    runtime: str = ""
    """That runtime; left out, the one of its framework."""
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def framework_version(self) -> str:
        """Version of the framework inside the image."""
        return self.version or str(self.arguments[f"{self.framework.upper()}_VERSION"]["value"])

    @property
    def base_repository(self) -> str | None:
        """Repository of AWS's registry that the recipe extends, if it does."""
        if self.version is None:
            return None
        return tables.image_tags(self.framework)[self.version].repository


def names(*, serves: bool | None = None) -> list[str]:
    """Return the names of the recipes, sorted: all, those that serve, or those that train."""
    return sorted(
        each for each in tables.table_of("recipes") if serves in {None, recipe(each).serves}
    )


def recipe(name: str) -> Recipe:
    """Return the recipe `name`. Raises UnknownRecipeError."""
    if name not in tables.table_of("recipes"):
        raise UnknownRecipeError(f"there is no recipe {name!r}; there are: {', '.join(names())}")
    return Recipe(name, **tables.table_of("recipes")[name])


def build_arguments(name: str, region: str) -> dict[str, str]:
    """Return the arguments of the recipe's build in `region`. Raises UnknownRecipeError."""
    row = recipe(name)
    arguments = {key: str(each["value"]) for key, each in row.arguments.items()}
    if row.version is None:
        return arguments
    account = tables.registry(region)
    if account is None:
        raise UnknownRecipeError(
            f"AWS has no registry in {region!r} that Shoal's launch/registries.yaml knows"
        )
    return arguments | {
        "ACCOUNT": account,
        "REGION": region,
        "TAG": getattr(tables.image_tags(row.framework)[row.version], f"training_{row.device}"),
    }


def folder_of_all(root: Path) -> Path:
    """Return the folder of the recipes: the repository's own, or else this version of Shoal's."""
    return next(each / FOLDER for each in (root, TOP_LEVEL) if (each / FOLDER).is_dir())


def folder(name: str, root: Path) -> Path:
    """Return the recipe's folder, for the repository at `root`. Raises UnknownRecipeError."""
    return folder_of_all(root) / (recipe(name).folder or name)


def ami_of(instance_type: str, image_uri: str) -> str | None:
    """Return the image of the endpoint's instances whose driver fits the recipe for GPUs; None for
    every other image, and where there are no GPUs. SageMaker takes an older one by itself.
    """
    name = "pytorch-serving-gpu"
    if not re.search(rf"[/-]{name}[:@]", image_uri) or not tables.has_gpus(instance_type):
        return None
    generation = str(tables.cuda_in(build_arguments(name, "us-east-1")["TAG"]))[:2]
    return [ami for ami, cuda in tables.inference_amis().items() if cuda[:2] == generation][-1]


def content_tag(name: str, region: str, root: Path, index: str = "") -> str:
    """Return the tag of the recipe's image, with packages of `index`. Raises UnknownRecipeError."""
    digest = hashlib.sha256()
    for key, value in sorted(build_arguments(name, region).items()):
        digest.update(f"{key}={value}\n".encode())
    digest.update(f"index={index}\n".encode() if index else b"")
    files = folder(name, root)
    for path in sorted(files.rglob("*"), key=lambda path: path.relative_to(files).as_posix()):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            digest.update(
                f"{path.relative_to(files).as_posix()}\0{len(content)}\0".encode() + content
            )
    return digest.hexdigest()[:TAG_LENGTH]
