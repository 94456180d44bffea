"""The container image that an environment builds for training, with CodeBuild.

A build publishes the image's URI in a parameter whose name contains the hash of the recipe, so the
parameter exists if and only if this recipe was built.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.aws.events import Detail, Report
from shoal.aws.logs import LogLocation, LogTail
from shoal.aws.target import Target
from shoal.errors import ImageBuildError, NotFoundError, UsageError
from shoal.launch import recipes
from shoal.settings.names import Names
from shoal.settings.settings import Environment

_TAIL_LINES = 20


@dataclass(frozen=True)
class Image:
    """One recipe's image in one account and region."""

    target: Target
    recipe: str
    parameter: str
    """Name of the SSM parameter that gets the URI from the build."""
    project: str
    """Name of the CodeBuild project."""

    def uri(self) -> str | None:
        """Return the image's URI with its digest, or None if this recipe was not built yet."""
        ssm = self.target.client("ssm")
        try:
            return str(ssm.get_parameter(Name=self.parameter)["Parameter"]["Value"])
        except ssm.exceptions.ParameterNotFound:
            return None

    def require(self, arguments: str) -> None:
        """Raise NotFoundError unless the image exists.

        `arguments` name the environment on a command line.
        """
        if self.uri() is None:
            raise NotFoundError(
                f"images/{self.recipe}, as it is in this checkout, has not been built in"
                f" {self.target.description}; nothing was deployed; run `shoal image build"
                f" {arguments}` first"
            )

    def build(self, report: Report, poll_s: float) -> str:
        """Start the project, wait, and return the URI.

        Raises ImageBuildError, with the log's last lines.
        """
        client = self.target.client("codebuild")
        build = client.start_build(projectName=self.project)["build"]
        follow(client, self.target.client("logs"), str(build["id"]), report, poll_s)
        uri = self.uri()
        if uri is None:
            raise ImageBuildError(
                f"build {build['id']} succeeded, but did not write the parameter {self.parameter}"
            )
        return uri


def follow(codebuild: Any, logs: Any, build_id: str, report: Report, poll_s: float) -> None:
    """Report the log of a build until it ends; raise ImageBuildError unless it succeeds."""
    tail, lines = None, deque[str](maxlen=_TAIL_LINES)
    while True:
        build = codebuild.batch_get_builds(ids=[build_id])["builds"][0]
        location = build.get("logs", {})
        if tail is None and location.get("streamName"):
            tail = LogTail(logs, LogLocation(location["groupName"], location["streamName"]))
        for line in tail.new_lines() if tail else ():
            lines.append(line)
            report(Detail(line))
        if build["buildComplete"]:
            break
        time.sleep(poll_s)
    if build["buildStatus"] != "SUCCEEDED":
        phase = build.get("currentPhase", "unknown")
        raise ImageBuildError(
            f"build {build_id} ended as {build['buildStatus']} in phase {phase}",
            lines,
            location.get("deepLink"),
        )


def remove_parameters(target: Target, path: str) -> None:
    """Remove the parameters that builds left below `path`.

    Everything else that builds leave belongs to a stack.
    """
    client = target.client("ssm")
    pages = client.get_paginator("get_parameters_by_path").paginate(Path=path, Recursive=True)
    for name in [parameter["Name"] for page in pages for parameter in page["Parameters"]]:
        client.delete_parameter(Name=name)


def built_image(environment: Environment, target: Target, root: Path) -> Image | None:
    """Return the image that the environment of the repository at `root` wants built, if it does."""
    recipe, names = environment.training.build_image, Names(environment)
    if recipe is None:
        return None
    tag = recipes.content_tag(recipe, environment.region, root)
    return Image(target, recipe, names.image_parameter(recipe, tag), names.build_project)


def refuse_built_image(environment: Environment) -> None:
    """Raise UsageError if the environment wants an image built: shoal-local has no Docker."""
    if recipe := environment.training.build_image:
        raise UsageError(
            f"training.build_image {recipe}: the emulator builds no images, so this environment"
            " runs on AWS only"
        )
