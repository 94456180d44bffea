"""The container image of one environment: its repository, and the project that builds it. Deployed
only with `training.build_image`.

A deployment builds nothing: `shoal image build ENV` starts the project, and the pipeline's stack
reads the URI that it published.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from config.consumers import Consumer
from config.names import Names
from stacks.constructs import image_build
from stacks.constructs.consumer_access import image_statements
from stacks.constructs.image_build import ImageBuild
from stacks.constructs.image_repository import ImageRepository


class ImageStack(cdk.Stack):
    """`image` is the name of a recipe, a folder in `images/` of the repository at `root`."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        image: str,
        root: Path,
        env: cdk.Environment,
        consumers: Sequence[Consumer] = (),
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=names.stack("image"),
            env=env,
            termination_protection=names.environment.protect,
        )
        builder = names.role_arn(image_build.ACTOR)
        repository = ImageRepository(self, "Images", names=names, image=image, builder=builder)
        for statement in image_statements(consumers):
            repository.repository.add_to_resource_policy(statement)
        build = ImageBuild(self, "Build", names=names, image=image, root=root, key=repository.key)
        self.image_parameter = build.parameter
        cdk.CfnOutput(self, "RepositoryUri", value=names.repository_uri(image))
        cdk.CfnOutput(self, "BuildProjectName", value=names.build_project)
        cdk.CfnOutput(self, "ImageParameterName", value=build.parameter)
