"""The container image of one environment: its repository, and the project that builds it. Deployed
only with `training.build_image`.

A deployment builds nothing: `shoal image build ENV` starts the project, and the pipeline's stack
reads the URI that it published.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from constructs import Construct

from shoal.constructs.images import image_build
from shoal.constructs.images.image_build import ImageBuild
from shoal.constructs.images.image_repository import ImageRepository
from shoal.constructs.roles.consumer_access import image_statements
from shoal.constructs.shoal_stack import ShoalStack
from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import Names


class ImageStack(ShoalStack):
    """`image` is the name of a recipe, a folder in `images/` of the repository at `root`."""

    def __init__(
        self,
        scope: Construct,
        *,
        names: Names,
        image: str,
        root: Path,
        consumers: Sequence[Consumer] = (),
    ) -> None:
        super().__init__(scope, "image", names=names)
        builder = names.role_arn(image_build.ACTOR)
        repository = ImageRepository(self, "Images", names=names, image=image, builder=builder)
        for statement in image_statements(consumers):
            repository.repository.add_to_resource_policy(statement)
        build = ImageBuild(self, "Build", names=names, image=image, root=root, key=repository.key)
        self._environment, self._parameter = names.environment.name, build.parameter
        self.add_outputs(
            RepositoryUri=names.repository_uri(image),
            BuildProjectName=names.build_project,
            ImageParameterName=build.parameter,
        )

    def uri_in(self, stack: ShoalStack) -> str:
        """Return the URI that the last build of this recipe published, as `stack` sees it."""
        stack.add_stack_dependency(self)
        missing = (
            f"Not found? Then this recipe has not been built: shoal image build {self._environment}"
        )
        return stack.read_parameter("TrainingImage", self._parameter, missing)
