"""The file system of one environment, deployed only where `data.input_mode` is FSx.

It is a stack of its own: it costs money while it exists, holds only copies, and can be created and
deleted for one campaign.
"""

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from shoal.constructs.lustre_file_system import LustreFileSystem
from shoal.constructs.shoal_stack import ShoalStack
from shoal.pipelines.graph import MountedFileSystem
from shoal.settings.names import Names
from shoal.settings.sections.file_system import FileSystem
from stacks.data import DataStack
from stacks.network import NetworkStack


class FileSystemStack(ShoalStack):
    """FSx for Lustre in the training subnet.

    The pipeline reads its id and mount name from parameters: many changes replace a file system,
    and CloudFormation refuses to replace what another stack imports.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        names: Names,
        settings: FileSystem,
        network: NetworkStack,
        data: DataStack,
    ) -> None:
        super().__init__(scope, "file-system", names=names, is_replaceable=True)
        self._id = names.file_system_parameter("id")
        self._mount_name = names.file_system_parameter("mount-name")
        lustre = LustreFileSystem(
            self, "Lustre", names=names, settings=settings, place=network.training
        )
        lustre.encrypt(data.key)
        lustre.show_datasets()
        # The association names the bucket without referring to it.
        self.add_stack_dependency(data)
        for construct_id, name, value in (
            ("IdParameter", self._id, lustre.file_system_id),
            ("MountNameParameter", self._mount_name, lustre.mount_name),
        ):
            ssm.StringParameter(self, construct_id, parameter_name=name, string_value=value)
        self.add_outputs(FileSystemId=lustre.file_system_id, MountName=lustre.mount_name)

    def mounted_in(self, stack: ShoalStack) -> MountedFileSystem:
        """Return the file system as `stack` sees it, which is deployed after this one."""
        stack.add_stack_dependency(self)
        written = f"Written by the stack {self.stack_name}"
        return MountedFileSystem(
            file_system_id=stack.read_parameter("FileSystemId", self._id, written),
            mount_name=stack.read_parameter("MountName", self._mount_name, written),
        )
