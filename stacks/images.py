"""The container images of one environment: for each a repository, and the project that builds it.
What answers for PyTorch is built, unless `endpoint.build_image` is `none`.

CloudFormation builds nothing: `shoal deploy ENV` starts the projects, and the pipeline's stack
reads the URIs that they published.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from constructs import Construct

from shoal.constructs.images import ImageBuild, ImageRepository
from shoal.constructs.roles.delivery_roles import image_statements
from shoal.constructs.shoal_stack import ShoalStack
from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import Names


class ImageStack(ShoalStack):
    """Recipes are folders in `images/` of the repository at `root`."""

    def __init__(
        self, scope: Construct, *, names: Names, root: Path, consumers: Sequence[Consumer] = ()
    ) -> None:
        super().__init__(scope, "image", names=names)
        self._names, self._recipes = names, names.environment.built_images
        self._builds = {use: self._build(use, root, consumers) for use in self._recipes}

    def _build(self, use: str, root: Path, consumers: Sequence[Consumer]) -> ImageBuild:
        """Add what builds and keeps the image for `use`: training, endpoint."""
        names, image = self._names, self._recipes[use]
        part = "" if use == "training" else use.capitalize()
        repository = ImageRepository(self, f"{part}Images", names=names, image=image, use=use)
        for statement in image_statements(consumers):
            repository.repository.add_to_resource_policy(statement)
        key = repository.key
        build = ImageBuild(self, f"{part}Build", names=names, use=use, root=root, key=key)
        outputs = {
            "RepositoryUri": names.repository_uri(image),
            "BuildProjectName": names.build_project(use),
            "ImageParameterName": build.parameter,
        }
        self.add_outputs(**{f"{part}{name}": value for name, value in outputs.items()})
        return build

    def uris_in(self, stack: ShoalStack) -> dict[str, str]:
        """Return the URIs that the last builds of these recipes published, by use, as `stack` sees
        them.

        The recipe's hash is in the id of the stack's parameter, too: `cdk deploy` keeps what a
        parameter that is there has (--previous-parameters), so the image would stay the first one.
        """
        stack.add_stack_dependency(self)
        build = f"shoal deploy {self._names.environment.name} --images"
        missing = f"Not found? Then this recipe has not been built: {build}"
        return {
            use: stack.read_parameter(
                f"{use.capitalize()}Image{each.parameter.rpartition('/')[2]}",
                each.parameter,
                missing,
            )
            for use, each in self._builds.items()
        }

    def names_of(self, uris: Mapping[str, str]) -> dict[str, str]:
        """Return a name of each image that `uris_in` returned, without what a deployment finds."""
        return {
            uri: f"{self._names.repository_uri(self._recipes[use])}:built"
            for use, uri in uris.items()
        }
