"""An FSx for Lustre file system that shows the datasets of the data bucket.

It uses L1 resources. The L2 construct has no data repository association, leaves SCRATCH_2 at
Lustre 2.10 (which can have none), and accepts a PERSISTENT_2 file system without throughput.
`shoal.settings.sections.file_system` checks which combinations exist.
"""

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.roles.guard_rails import Place
from shoal.settings.names import Names
from shoal.settings.sections.file_system import DATASETS_PATH, DeploymentType, FileSystem

LUSTRE_VERSION = "2.15"
# Lustre user guide, "File system access control with Amazon VPC": between the servers, and between
# them and clients, both ways.
LUSTRE_PORTS = ((988, 988), (1018, 1023))
_IMPORTED = ["NEW", "CHANGED", "DELETED"]
# Never DELETED: cleaning a scratch disk must not delete the data of record.
_EXPORTED = ["NEW", "CHANGED"]


class LustreFileSystem(Construct):
    """`file_system_id` and `mount_name`; it is deleted with its stack, as it holds copies only."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        settings: FileSystem,
        place: Place,
    ) -> None:
        """`place` is where the training nodes are: one subnet, and the clients' security group."""
        super().__init__(scope, construct_id)
        self._names, self._settings = names, settings
        (subnet,) = place.subnets
        servers, rules = self._servers(place)
        persistent = settings.deployment_type is DeploymentType.PERSISTENT_2
        self._resource = fsx.CfnFileSystem(
            self,
            "FileSystem",
            file_system_type="LUSTRE",
            file_system_type_version=LUSTRE_VERSION,
            storage_type="SSD",
            storage_capacity=settings.storage_capacity_gib,
            subnet_ids=[subnet.subnet_id],
            security_group_ids=[servers.security_group_id],
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type=settings.deployment_type.value,
                per_unit_storage_throughput=(
                    settings.throughput_mbps_per_tib if persistent else None
                ),
                data_compression_type="LZ4" if settings.compress else "NONE",
            ),
        )
        self._resource.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        # FSx refuses a file system whose security group does not let Lustre's traffic through yet,
        # and asks only once.
        self._resource.node.add_dependency(*rules)
        cdk.Tags.of(self._resource).add("Name", f"{names.prefix}-training-data")
        self.file_system_id = self._resource.ref
        self.mount_name = self._resource.attr_lustre_mount_name

    def encrypt(self, key: kms.IKey) -> None:
        """Use `key`; FSx encrypts scratch file systems with one of its own, and takes no other."""
        if self._settings.deployment_type is DeploymentType.PERSISTENT_2:
            self._resource.kms_key_id = key.key_arn

    def show_datasets(self, _key: kms.IKey | None = None) -> None:
        """Let the file system show the data bucket's prefix `datasets/`.

        Stacks of before give the key, whose policy settings/key_policy.py has now.
        """
        bucket = self._names.bucket("data")
        properties = fsx.CfnDataRepositoryAssociation
        export = properties.AutoExportPolicyProperty(events=_EXPORTED)
        association = fsx.CfnDataRepositoryAssociation(
            self,
            "Datasets",
            file_system_id=self._resource.ref,
            file_system_path=DATASETS_PATH,
            data_repository_path=f"s3://{bucket}{DATASETS_PATH}/",
            batch_import_meta_data_on_create=True,
            s3=properties.S3Property(
                auto_import_policy=properties.AutoImportPolicyProperty(events=_IMPORTED),
                auto_export_policy=export if self._settings.export_changes else None,
            ),
        )
        association.apply_removal_policy(cdk.RemovalPolicy.DESTROY)

    def _servers(self, place: Place) -> tuple[ec2.SecurityGroup, list[Construct]]:
        """Return the servers' group and all rules, also those on the clients' group, which come and
        go with this stack.
        """
        servers = ec2.SecurityGroup(
            self,
            "Servers",
            vpc=place.vpc,
            allow_all_outbound=False,
            description="Lustre servers: each other and the training nodes",
        )
        (clients,) = (group.security_group_id for group in place.security_groups)
        own = servers.security_group_id
        rules: list[Construct] = []
        for name, group, peer in (
            ("BetweenServers", own, own),
            ("ServersWithClients", own, clients),
            ("ClientsWithServers", clients, own),
        ):
            for first, last in LUSTRE_PORTS:
                same: dict[str, Any] = {
                    "description": "Lustre",
                    "group_id": group,
                    "ip_protocol": "tcp",
                    "from_port": first,
                    "to_port": last,
                }
                rules += [
                    ec2.CfnSecurityGroupIngress(
                        self, f"{name}In{first}", source_security_group_id=peer, **same
                    ),
                    ec2.CfnSecurityGroupEgress(
                        self, f"{name}Out{first}", destination_security_group_id=peer, **same
                    ),
                ]
        return servers, rules
