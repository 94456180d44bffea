"""The network of one environment: where training and hosting run."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from config.names import Names
from stacks.constructs.private_network import PrivateNetwork
from stacks.constructs.security_groups import SecurityGroups


class NetworkStack(cdk.Stack):
    """VPC, subnets, endpoints, flow logs and security groups."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, env: cdk.Environment) -> None:
        super().__init__(scope, construct_id, stack_name=names.stack("network"), env=env, termination_protection=names.environment.protect)
        network = PrivateNetwork(self, "Network", names=names)
        self.vpc = network.vpc
        self.training_subnet = network.training_subnet
        self.hosting_subnets = network.hosting_subnets
        groups = SecurityGroups(self, "SecurityGroups", vpc=self.vpc)
        self.training_security_group = groups.training
        self.hosting_security_group = groups.hosting
        self._add_outputs()

    @property
    def availability_zones(self) -> list[str]:
        """Nothing: zones are chosen by id in the settings. The base class would ask AWS for their names during synth."""
        return []

    def _add_outputs(self) -> None:
        cdk.CfnOutput(self, "VpcId", value=self.vpc.vpc_id)
        cdk.CfnOutput(self, "TrainingSubnetId", value=self.training_subnet.subnet_id)
        cdk.CfnOutput(self, "HostingSubnetIds", value=",".join(subnet.subnet_id for subnet in self.hosting_subnets))
        cdk.CfnOutput(self, "TrainingSecurityGroupId", value=self.training_security_group.security_group_id)
        cdk.CfnOutput(self, "HostingSecurityGroupId", value=self.hosting_security_group.security_group_id)
