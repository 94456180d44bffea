"""The stacks of one environment.

They are deployed in the order of their dependencies, which differs from the order of the lines
below: data (the key of the network's flow logs), network, file-system and image where they exist,
pipeline, monitoring, serving where a release is pinned. `pipelines/costs/plan.py` shows that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import aws_cdk as cdk
from constructs import Construct

from config.consumers import Consumer
from config.names import Names
from config.settings import Environment
from pipelines.launch import Launch
from stacks.constructs.log_settings import keep_logs
from stacks.constructs.smoke_test_file import smoke_test_file
from stacks.data_stack import DataStack
from stacks.monitoring_stack import MonitoringStack
from stacks.network_stack import NetworkStack
from stacks.pipeline_stack import PipelineStack

# Stacks that few environments have are imported where they are made: each imports parts of the CDK
# that take long.
if TYPE_CHECKING:
    from stacks.file_system_stack import FileSystemStack
    from stacks.image_stack import ImageStack
    from stacks.serving_stack import ServingStack


class EnvironmentStage(cdk.Stage):
    """The stage's id is the environment's name, so `cdk deploy 'dev/*'` means its stacks.

    `launch` is what trains; `root` is the repository; `consumers` serve what is trained here.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        launch: Launch,
        root: Path,
        consumers: Sequence[Consumer] = (),
    ) -> None:
        boundary = environment.permissions_boundary
        super().__init__(
            scope,
            environment.name,
            permissions_boundary=cdk.PermissionsBoundary.from_name(boundary) if boundary else None,
        )
        names = Names(environment)
        env = cdk.Environment(account=environment.account, region=environment.region)
        self.network = NetworkStack(self, "network", names=names, env=env)
        self.data = DataStack(
            self,
            "data",
            names=names,
            functions=root / "stacks" / "functions",
            env=env,
            consumers=consumers,
        )
        self.file_system = self._file_system(names, env)
        self.image = self._image(names, root, env, consumers)
        requests = smoke_test_file(environment.workload, root) if environment.endpoint else None
        self.pipeline = PipelineStack(
            self,
            "pipeline",
            names=names,
            launch=launch,
            root=root,
            requests=requests,
            network=self.network,
            data=self.data,
            file_system=self.file_system,
            image=self.image,
            env=env,
        )
        functions = root / "stacks" / "functions"
        self.monitoring = MonitoringStack(
            self,
            "monitoring",
            names=names,
            functions=functions,
            data=self.data,
            pipeline=self.pipeline,
            env=env,
        )
        self.serving = self._serving(names, functions, requests, env)
        keep_logs(self, names=names, key=self.data.key)
        cdk.Tags.of(self).add("shoal:project", environment.project)
        cdk.Tags.of(self).add("shoal:environment", environment.name)

    def _file_system(self, names: Names, env: cdk.Environment) -> FileSystemStack | None:
        settings = names.environment.file_system
        if settings is None:
            return None
        from stacks.file_system_stack import FileSystemStack

        return FileSystemStack(
            self,
            "file-system",
            names=names,
            settings=settings,
            network=self.network,
            data=self.data,
            env=env,
        )

    def _image(
        self, names: Names, root: Path, env: cdk.Environment, consumers: Sequence[Consumer]
    ) -> ImageStack | None:
        recipe = names.environment.training.build_image
        if recipe is None:
            return None
        from stacks.image_stack import ImageStack

        return ImageStack(
            self, "image", names=names, image=recipe, root=root, env=env, consumers=consumers
        )

    def _serving(
        self, names: Names, functions: Path, requests: bytes | None, env: cdk.Environment
    ) -> ServingStack | None:
        """Return the serving stack, if a release is pinned and the settings have a section
        `serving`.
        """
        settings, release = names.environment.serving, names.environment.release
        if settings is None or release is None or requests is None:
            return None
        from stacks.serving_stack import ServingStack

        return ServingStack(
            self,
            "serving",
            names=names,
            settings=settings,
            release=release,
            functions=functions,
            requests=requests,
            network=self.network,
            data=self.data,
            topic=self.monitoring.alarms.topic,
            env=env,
        )
