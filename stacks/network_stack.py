"""The network of one environment: where training and hosting run."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from config.names import Names
from stacks.constructs.existing_network import ExistingNetwork
from stacks.constructs.interface_endpoints import InterfaceEndpoints
from stacks.constructs.private_network import PrivateNetwork
from stacks.constructs.security_groups import SecurityGroups


class NetworkStack(cdk.Stack):
    """VPC, subnets, endpoints, flow logs and security groups; or only security groups, in an
    existing VPC.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, env: cdk.Environment
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=names.stack("network"),
            env=env,
            termination_protection=names.environment.protect,
        )
        settings = names.environment.network
        network = _network(self, names)
        self.vpc: ec2.IVpc = network.vpc
        self.training_subnet: ec2.ISubnet = network.training_subnet
        self.hosting_subnets: list[ec2.ISubnet] = [*network.hosting_subnets]
        several = bool(names.environment.workloads)
        groups = SecurityGroups(
            self, "SecurityGroups", vpc=self.vpc, settings=settings, several=several
        )
        self.training_security_group = groups.training
        self.hosting_security_group = groups.hosting
        if names.environment.interface_endpoints:
            callers = [groups.training, groups.hosting]
            InterfaceEndpoints(
                self,
                "Interfaces",
                names=names,
                vpc=self.vpc,
                subnet=self.training_subnet,
                callers=callers,
            )
        self._add_outputs()
        self._export_always()

    @property
    def availability_zones(self) -> list[str]:
        """Return nothing: zones are chosen by id in the settings.

        The base class would ask AWS for their names during synth.
        """
        return []

    def _export_always(self) -> None:
        """Export what another stack may import, whether one does or not.

        CloudFormation takes back no export that a deployed stack still imports, as one does that
        had an endpoint or a file system before. And an export that comes with a workload would
        change this template.
        """
        subnets = [self.training_subnet, *self.hosting_subnets]
        groups = [self.training_security_group, self.hosting_security_group]
        values = [
            self.vpc.vpc_id,
            *(subnet.subnet_id for subnet in subnets),
            *(group.security_group_id for group in groups),
        ]
        for value in values:
            if cdk.Token.is_unresolved(value):  # an existing network's ids are no exports
                self.export_value(value)

    def _add_outputs(self) -> None:
        cdk.CfnOutput(self, "VpcId", value=self.vpc.vpc_id)
        cdk.CfnOutput(self, "TrainingSubnetId", value=self.training_subnet.subnet_id)
        cdk.CfnOutput(
            self,
            "HostingSubnetIds",
            value=",".join(subnet.subnet_id for subnet in self.hosting_subnets),
        )
        cdk.CfnOutput(
            self, "TrainingSecurityGroupId", value=self.training_security_group.security_group_id
        )
        cdk.CfnOutput(
            self, "HostingSecurityGroupId", value=self.hosting_security_group.security_group_id
        )


def _network(stack: NetworkStack, names: Names) -> PrivateNetwork | ExistingNetwork:
    settings = names.environment.network
    if settings.existing is None:
        return PrivateNetwork(stack, "Network", names=names)
    return ExistingNetwork(
        stack,
        "Network",
        ids=settings.existing,
        az_ids=[settings.training_az_id, *settings.hosting_az_ids],
    )
