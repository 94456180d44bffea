"""The build arguments of a recipe, from the tables of `pipelines.launch`, and its command."""

from __future__ import annotations

import shlex
from pathlib import Path

from pipelines.launch.recipes import UnknownRecipeError, build_arguments, names, recipe

__all__ = ["UnknownRecipeError", "build_arguments", "build_command", "dockerfile_of", "names"]

HERE = Path(__file__).resolve().parent


def dockerfile_of(name: str) -> Path:
    return HERE / name / "Dockerfile"


def local_tag(name: str) -> str:
    """Return the image's tag on the machine that built it.

    shoal-local knows its repository by this name (local/src/shoal_local/images.yaml).
    """
    return f"shoal-{name}:1"


def build_command(name: str, region: str, tag: str, workload: str | None = None) -> str:
    """Return the command for the repository's root, with a login to the base image's registry.

    With a workload its scripts are there for `--target with-code`.
    """
    arguments = [
        part
        for key, value in build_arguments(name, region).items()
        for part in ("--build-arg", f"{key}={value}")
    ]
    has_code = "with-code" in dockerfile_of(name).read_text(encoding="utf-8")
    code = f"code=training_code/{workload}/{recipe(name).framework}"
    contexts = ["--build-context", code] if workload and has_code else []
    return shlex.join(
        [
            "docker",
            "build",
            "--platform",
            "linux/amd64",
            *arguments,
            *contexts,
            "--tag",
            tag,
            f"images/{name}",
        ]
    )
