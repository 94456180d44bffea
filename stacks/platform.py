"""The platform: all stacks of one environment, in order.

They are deployed in the order of their dependencies, which differs from the order of the lines
below: data (the key of the network's flow logs), network, file-system and image where they exist,
pipeline, serving where a release is pinned. Monitoring needs data only, and comes before serving.
`packages/shoal/src/shoal/costs/plan.py` shows such an order.
"""

from collections.abc import Sequence
from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from shoal.constructs.app import Deployment
from shoal.constructs.pipeline.pipeline_functions import smoke_test_file
from shoal.constructs.shoal_stack import (
    come_after,
    configure_log_groups,
    tag_environment,
    tag_workload,
)
from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import Names
from stacks.data import DataStack
from stacks.file_system import FileSystemStack
from stacks.images import ImageStack
from stacks.monitoring import MonitoringStack
from stacks.network import NetworkStack
from stacks.pipeline import PipelineStack
from stacks.serving import ServingStack


class EnvironmentStage(cdk.Stage):
    """The stage's id is the environment's name, so `cdk deploy 'dev/*'` means its stacks, and where
    there are several workloads `cdk deploy 'dev/prices-*'` those of one.

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
        names = Names(environment).shared
        self.root, self.consumers = root, consumers
        self.network = NetworkStack(self, names=names)
        self.data = DataStack(self, names=names, consumers=consumers)
        self.file_system: FileSystemStack | None = None
        if environment.file_system:
            self.file_system = FileSystemStack(
                self,
                names=names,
                settings=environment.file_system,
                network=self.network,
                data=self.data,
            )
        self.workloads = [WorkloadStacks(self, each) for each in workloads]
        come_after(self.data, self)
        configure_log_groups(self, names=names, key=self.data.key)
        tag_environment(self, environment)


class WorkloadStacks:
    """The stacks that one workload has for itself, in the stage of its environment."""

    def __init__(self, stage: EnvironmentStage, workload: Deployment) -> None:
        environment, names = workload.environment, Names(workload.environment)
        root, network, data = stage.root, stage.network, stage.data
        self.image: ImageStack | None = None
        self.serving: ServingStack | None = None
        if environment.built_images:
            self.image = ImageStack(stage, names=names, root=root, consumers=stage.consumers)
        requests = smoke_test_file(environment.workload, root) if environment.endpoint else None
        self.pipeline = PipelineStack(
            stage,
            names=names,
            launch=workload.launch,
            root=root,
            requests=requests,
            network=network,
            data=data,
            file_system=stage.file_system,
            image=self.image,
            consumers=stage.consumers,
        )
        self.monitoring = MonitoringStack(stage, names=names, data=data, pipeline=self.pipeline)
        # Nothing is served before a release is pinned.
        if environment.serving and environment.release and requests:
            self.serving = ServingStack(
                stage,
                names=names,
                settings=environment.serving,
                release=environment.release,
                requests=requests,
                network=network,
                data=data,
                topic=self.monitoring.topic,
            )
        if environment.workloads:
            for stack in filter(None, (self.image, self.pipeline, self.monitoring, self.serving)):
                tag_workload(stack, names)
