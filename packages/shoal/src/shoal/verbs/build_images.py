"""Build the images that an environment lacks, before its other stacks need them, and say who else
needs them.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from botocore.exceptions import ClientError

from shoal.aws.cdk import Cdk
from shoal.aws.events import Note, Report
from shoal.errors import error_code
from shoal.settings.loading.loader import environment_names, load_workloads
from shoal.settings.names import Names
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from shoal.verbs.flow import phase
from shoal.verbs.image import Image, built_images
from shoal.verbs.workspace import Session


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
