"""A recipe's name and a region in; its build arguments, from the tables of `pipelines.launch`, and
the `docker build` command out.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from pipelines.launch.recipes import UnknownRecipeError, build_arguments, names, recipe

__all__ = ["UnknownRecipeError", "build_arguments", "build_command", "dockerfile_of", "names"]

HERE = Path(__file__).resolve().parent


def dockerfile_of(name: str) -> Path:
    return HERE / name / "Dockerfile"


def local_tag(name: str) -> str:
    """What the image is called where it was built; the emulator knows its repository by this name
    (local/src/shoal_local/images.yaml).
    """
    return f"shoal-{name}:1"


def build_command(name: str, region: str, tag: str) -> str:
    """Run it at the repository's root, logged in to the base image's registry."""
    arguments = [
        part
        for key, value in build_arguments(name, region).items()
        for part in ("--build-arg", f"{key}={value}")
    ]
    code = f"code=training_code/{recipe(name).framework}"
    contexts = (
        ["--build-context", code]
        if "with-code" in dockerfile_of(name).read_text(encoding="utf-8")
        else []
    )
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
