"""The file system of one environment, deployed only where `data.input_mode` is FSx.

It is a stack of its own: it costs money while it exists, holds only copies, and can be created and
deleted for one campaign.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from config.file_system import FileSystem
from config.names import Names
from pipelines.definition import MountedFileSystem
from stacks.constructs.guard_rails import Place
from stacks.constructs.lustre_file_system import LustreFileSystem
from stacks.data_stack import DataStack
from stacks.network_stack import NetworkStack


class FileSystemStack(cdk.Stack):
    """FSx for Lustre in the training subnet.

    The pipeline reads its id and mount name from parameters: many changes replace a file system,
    and CloudFormation refuses to replace what another stack imports.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        settings: FileSystem,
        network: NetworkStack,
        data: DataStack,
        env: cdk.Environment,
    ) -> None:
        # Not protected, whatever the environment: deleting it loses nothing and saves money.
        super().__init__(scope, construct_id, stack_name=names.stack("file-system"), env=env)
        place = Place(network.vpc, [network.training_subnet], [network.training_security_group])
        self._names = names
        self._lustre = LustreFileSystem(self, "Lustre", names=names, settings=settings, place=place)
        self._lustre.encrypt(data.key)
        self._lustre.show_datasets(data.key)
        # The association names the bucket without referring to it.
        self.add_stack_dependency(data)
        self._publish("IdParameter", "id", self._lustre.file_system_id)
        self._publish("MountNameParameter", "mount-name", self._lustre.mount_name)
        cdk.CfnOutput(self, "FileSystemId", value=self._lustre.file_system_id)
        cdk.CfnOutput(self, "MountName", value=self._lustre.mount_name)

    def mounted_in(self, stack: cdk.Stack) -> MountedFileSystem:
        """Return the file system as `stack` sees it, which is deployed after this one."""
        stack.add_stack_dependency(self)
        return MountedFileSystem(
            file_system_id=self._read(stack, "FileSystemId", "id"),
            mount_name=self._read(stack, "MountName", "mount-name"),
        )

    def _publish(self, construct_id: str, what: str, value: str) -> None:
        ssm.StringParameter(
            self,
            construct_id,
            parameter_name=self._names.file_system_parameter(what),
            string_value=value,
        )

    def _read(self, stack: cdk.Stack, construct_id: str, what: str) -> str:
        parameter = cdk.CfnParameter(
            stack,
            construct_id,
            type="AWS::SSM::Parameter::Value<String>",
            default=self._names.file_system_parameter(what),
            description=f"Written by the stack {self.stack_name}",
        )
        return parameter.value_as_string
