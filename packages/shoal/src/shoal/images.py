"""Recipes of container images: their build arguments, from the tables of `shoal.launch`, and the
command that builds one.

`python -m shoal.images [NAME [REGION [WORKLOAD]]]` lists the recipes, or prints that command.
"""

import shlex
import sys
from pathlib import Path

from shoal.launch.recipes import UnknownRecipeError, build_arguments, folder, names, recipe

__all__ = ["UnknownRecipeError", "build_arguments", "build_command", "dockerfile_of", "names"]


def dockerfile_of(name: str, root: Path | None = None) -> Path:
    """Return the recipe's Dockerfile in the repository `root`, by default the working directory."""
    return folder(name, root or Path.cwd()) / "Dockerfile"


def local_tag(name: str) -> str:
    """Return the image's tag on the machine that built it.

    shoal-local knows its repository by this name
    (packages/shoal-local/src/shoal_local/images.yaml).
    """
    return f"shoal-{name}:1"


def build_command(
    name: str, region: str, tag: str, workload: str | None = None, root: Path | None = None
) -> str:
    """Return the command for the repository's root, with a login to the base image's registry.

    With a workload its scripts are there for `--target with-code`.
    """
    arguments = [
        part
        for key, value in build_arguments(name, region).items()
        for part in ("--build-arg", f"{key}={value}")
    ]
    has_code = "with-code" in dockerfile_of(name, root).read_text(encoding="utf-8")
    code = f"code=training_code/{workload}/{recipe(name).framework}"
    root = root or Path.cwd()
    place = folder(name, root)
    contexts = ["--build-context", code, "--build-context", "common=training_code/common"]
    return shlex.join(
        [
            "docker",
            "build",
            "--platform",
            "linux/amd64",
            *arguments,
            *(contexts if workload and has_code else []),
            "--tag",
            tag,
            str(place.relative_to(root) if place.is_relative_to(root) else place),
        ]
    )


def main(arguments: list[str]) -> int:
    """Run the command; the exit code is 0 fine, 2 wrong usage."""
    if not arguments:
        print("\n".join(names()))
        return 0
    name, region = (*arguments, "us-east-1")[:2]
    workload = arguments[2] if len(arguments) > 2 else None
    try:
        print(build_command(name, region, local_tag(name), workload))
    except UnknownRecipeError as error:
        print(f"images: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
