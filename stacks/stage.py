"""The stacks of one environment.

They are deployed in the order of their dependencies, which differs from the order of the lines
below: data (the key of the network's flow logs), network, file-system and image where they exist,
pipeline, serving where a release is pinned. Monitoring needs data only, and comes before serving.
`pipelines/costs/plan.py` shows such an order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aws_cdk as cdk
from constructs import Construct

from config.consumers import Consumer
from config.names import ENVIRONMENT_TAG, WORKLOAD_TAG, Names
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


@dataclass(frozen=True)
class Deployment:
    """One workload of an environment, and what trains it."""

    environment: Environment
    launch: Launch


class EnvironmentStage(cdk.Stage):
    """The stage's id is the environment's name, so `cdk deploy 'dev/*'` means its stacks, and where
    there are several workloads `cdk deploy 'dev/houses-*'` those of one.

    `workloads` are all of one environment; `root` is the repository; `consumers` serve what is
    trained here.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        workloads: Sequence[Deployment],
        root: Path,
        consumers: Sequence[Consumer] = (),
    ) -> None:
        environment = workloads[0].environment
        boundary = environment.permissions_boundary
        super().__init__(
            scope,
            environment.name,
            permissions_boundary=cdk.PermissionsBoundary.from_name(boundary) if boundary else None,
        )
        self.root, self.consumers = root, consumers
        self.env = cdk.Environment(account=environment.account, region=environment.region)
        self.tags_of_all = {
            "shoal:project": environment.project,
            ENVIRONMENT_TAG: environment.name,
        }
        names = Names(environment).shared
        self.network = NetworkStack(self, "network", names=names, env=self.env)
        self.data = DataStack(
            self,
            "data",
            names=names,
            env=self.env,
            consumers=consumers,
        )
        self.file_system = self._file_system(names)
        self.workloads = [WorkloadStacks(self, each) for each in workloads]
        keep_logs(self, names=names, key=self.data.key)
        for key, value in self.tags_of_all.items():
            cdk.Tags.of(self).add(key, value)

    def _file_system(self, names: Names) -> FileSystemStack | None:
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
            env=self.env,
        )


class WorkloadStacks:
    """The stacks that one workload has for itself, in the stage of its environment."""

    def __init__(self, stage: EnvironmentStage, workload: Deployment) -> None:
        self._stage, self._names = stage, Names(workload.environment)
        self.image = self._image()
        environment = workload.environment
        requests = (
            smoke_test_file(environment.workload, stage.root) if environment.endpoint else None
        )
        self.pipeline = PipelineStack(
            stage,
            self._names.stack_id("pipeline"),
            names=self._names,
            launch=workload.launch,
            root=stage.root,
            requests=requests,
            network=stage.network,
            data=stage.data,
            file_system=stage.file_system,
            image=self.image,
            env=stage.env,
            consumers=stage.consumers,
        )
        self.monitoring = MonitoringStack(
            stage,
            self._names.stack_id("monitoring"),
            names=self._names,
            root=stage.root,
            data=stage.data,
            pipeline=self.pipeline,
            env=stage.env,
        )
        self.serving = self._serving(requests)
        if workload.environment.workloads:
            for stack in filter(None, (self.image, self.pipeline, self.monitoring, self.serving)):
                self._tag(stack)

    def _tag(self, stack: cdk.Stack) -> None:
        """Tag what the stack has with its workload, and the stack itself, which the CDK leaves out
        (@aws-cdk/core:explicitStackTags): so `shoal destroy` finds the stacks of a workload that
        left its environment's file.
        """
        cdk.Tags.of(stack).add(WORKLOAD_TAG, self._names.prefix)
        for key, value in self._stage.tags_of_all.items():
            stack.tags.set_tag(key, value)
        stack.tags.set_tag(WORKLOAD_TAG, self._names.prefix)

    def _image(self) -> ImageStack | None:
        recipe, stage = self._names.environment.training.build_image, self._stage
        if recipe is None:
            return None
        from stacks.image_stack import ImageStack

        return ImageStack(
            stage,
            self._names.stack_id("image"),
            names=self._names,
            image=recipe,
            root=stage.root,
            env=stage.env,
            consumers=stage.consumers,
        )

    def _serving(self, requests: bytes | None) -> ServingStack | None:
        """Return the serving stack, if a release is pinned and the settings have a section
        `serving`.
        """
        environment, stage = self._names.environment, self._stage
        if environment.serving is None or environment.release is None or requests is None:
            return None
        from stacks.serving_stack import ServingStack

        return ServingStack(
            stage,
            self._names.stack_id("serving"),
            names=self._names,
            settings=environment.serving,
            release=environment.release,
            requests=requests,
            network=stage.network,
            data=stage.data,
            topic=self.monitoring.alarms.topic,
            env=stage.env,
        )
