"""The container images that an environment builds, with CodeBuild.

A build publishes the image's URI in a parameter whose name contains the hash of the recipe, so the
parameter exists if and only if this recipe was built.
"""

from __future__ import annotations

import json
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from shoal.aws.cdk import Cdk
from shoal.aws.events import Detail, Note, Report
from shoal.aws.logs import LogLocation, LogTail
from shoal.aws.objects import parameter
from shoal.aws.target import Target
from shoal.errors import ImageBuildError, UsageError, error_code
from shoal.launch import recipes
from shoal.settings.loading.loader import environment_names, load_workloads
from shoal.settings.names import Names
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from shoal.verbs.flow import phase

if TYPE_CHECKING:  # it imports what destroys, which imports this
    from shoal.verbs.workspace import Session

_TAIL_LINES = 20
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


@dataclass(frozen=True)
class Image:
    """One recipe's image in one account and region."""

    target: Target
    use: str
    """What it is for: training, endpoint."""
    recipe: str
    parameter: str
    """Name of the SSM parameter that gets the URI from the build."""
    repository_uri: str
    project: str
    """Name of the CodeBuild project."""

    def uri(self) -> str | None:
        """Return the image's URI with its digest, or None if this recipe was not built yet."""
        return parameter(self.target, self.parameter)

    def stand_in(self) -> str:
        """Register that shoal-local runs the recipe's program, as a build registers its image;
        return the URI.

        What is pushed is a manifest without layers: there is no image.
        """
        tag, ecr = self.parameter.rpartition("/")[2], self.target.client("ecr")
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": {"digest": tag}}
        pushed = ecr.put_image(
            repositoryName=self.repository_uri.partition("/")[2],
            imageTag=tag,
            imageManifest=json.dumps(manifest),
        )
        uri = f"{self.repository_uri}@{pushed['image']['imageId']['imageDigest']}"
        self.target.client("ssm").put_parameter(Name=self.parameter, Type="String", Value=uri)
        return uri

    def start(self) -> str | None:
        """Start the project and return the build's id, or that of a build that goes on since an
        earlier try; None where shoal-local has the image at once: one for whose recipe it has a
        runtime.
        """
        if self.target.is_local and recipes.recipe(self.recipe).local:
            self.stand_in()
            return None
        codebuild, name = self.target.client("codebuild"), self.project
        try:
            return str(codebuild.start_build(projectName=name)["build"]["id"])
        except codebuild.exceptions.AccountLimitExceededException:
            # a project has one build at a time (`ImageBuild`), the account perhaps, too
            ids = codebuild.list_builds_for_project(projectName=name, sortOrder="DESCENDING")["ids"]
            newest = codebuild.batch_get_builds(ids=ids[:1])["builds"] if ids else []
            if not newest or newest[0]["buildComplete"]:
                raise
            return str(newest[0]["id"])

    def finish(self, build_id: str, report: Report, poll_s: float) -> None:
        """Wait for a build; raise ImageBuildError, with its last lines, if no image is there."""
        codebuild, logs = self.target.client("codebuild"), self.target.client("logs")
        follow(codebuild, logs, build_id, report, poll_s)
        if self.uri() is None:
            raise ImageBuildError(
                f"build {build_id} succeeded, but did not write the parameter {self.parameter}"
            )


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


def built_images(environment: Environment, target: Target, root: Path) -> tuple[Image, ...]:
    """Return the images that the environment of the repository at `root` wants built."""
    names, index = Names(environment), environment.organisation.package_index
    place = index.place if index else ""
    tags = {
        use: (recipe, recipes.content_tag(recipe, environment.region, root, place))
        for use, recipe in environment.built_images.items()
    }
    return tuple(
        Image(
            target,
            use,
            recipe,
            names.image_parameter(recipe, tag),
            names.repository_uri(recipe),
            names.build_project(use),
        )
        for use, (recipe, tag) in tags.items()
    )


def refuse_built_image(environment: Environment) -> None:
    """Raise UsageError for a built image without a runtime in shoal-local, which has no Docker."""
    for use, recipe in environment.built_images.items():
        if recipe in recipes.names() and not recipes.recipe(recipe).local:
            raise UsageError(
                f"{use}.build_image {recipe}: the emulator builds no images, so this environment"
                " runs on AWS only"
            )


def build_missing(
    session: Session, cdk: Cdk, report: Report, *, meanwhile: bool = False
) -> list[str]:
    """Return the URIs of the environment's images, once those that nobody built are there.

    `cdk` has the environment's templates. The image stack is deployed first: it has repositories
    and projects. With `meanwhile` what needs no image is deployed while CodeBuild works.
    """
    target, name = session.target, session.environment.name
    images = [
        image
        for each in session.each
        for image in built_images(each.environment, target, session.workspace.root)
    ]
    missing = [image for image in images if image.uri() is None]
    if missing:
        several = session.views and session.environment.workloads
        stack = "*-image" if several else session.names.stack_id("image")
        with phase(f"deploy the image stack of {session.title} to {target.description}", report):
            cdk.deploy(target, name, stack=stack)
    builds = list[tuple[Image, str]]()

    def finish() -> None:
        while builds:
            image, build = builds.pop(0)
            with phase(f"build images/{image.recipe}, once: some 20 minutes", report):
                image.finish(build, report, session.poll_s)

    for image in missing:
        try:
            build = image.start()
        except ClientError as error:
            # new accounts may have one build at a time (CodeBuild user guide, "Quotas")
            if not builds or error_code(error) != "AccountLimitExceededException":
                raise
            finish()
            build = image.start()
        builds += [(image, build)] if build else []
    if missing and target.is_local and not builds:
        report(Note("the emulator builds no image: it runs the recipe's program in its runtime"))
    if builds and meanwhile:
        with phase("deploy network and data while CodeBuild works", report):
            cdk.deploy(target, name, stack="{network,data}")
    finish()
    return [str(image.uri()) for image in images]


def serve_from(names: Names, root: Path) -> list[str]:
    """Return the other environments of the checkout whose release is pinned with an image that this
    one has built: SageMaker pulls it again whenever an instance starts.
    """
    those = [names] if names.is_one_of_several else names.each
    own = tuple(each.repository_uri("") for each in those)
    views = list[Environment]()
    for name in environment_names(root):
        with suppress(ConfigError):  # a mistake in its file, which this is not about
            views += load_workloads(name, root) if name != names.environment.name else ()
    return [each.title for each in views if each.release and each.release.image_uri.startswith(own)]
