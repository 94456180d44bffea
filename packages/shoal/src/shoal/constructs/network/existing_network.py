"""A VPC and subnets that exist already, by their ids. Nothing is created or looked up.

Only AWS knows whether the subnets lie in the zones of the settings, reach S3 and have free
addresses: `shoal.verbs.doctor.network_check` asks it.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from shoal.settings.sections.network import ExistingNetwork as Ids
from shoal.settings.sections.network import Network


class ExistingNetwork(Construct):
    """`vpc`, `training_subnet` and `hosting_subnets` by their ids."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: Network, ids: Ids) -> None:
        super().__init__(scope, construct_id)
        az_ids = {settings.training_az_id, *settings.hosting_az_ids}
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id=ids.vpc_id, availability_zones=sorted(az_ids)
        )
        self.training_subnet = self._subnet("Training", ids.training_subnet_id)
        self.hosting_subnets = [
            self._subnet(f"Hosting{number}", subnet)
            for number, subnet in enumerate(ids.hosting_subnet_ids, start=1)
        ]

    def _subnet(self, construct_id: str, subnet_id: str) -> ec2.ISubnet:
        subnet = ec2.Subnet.from_subnet_id(self, construct_id, subnet_id)
        # No route is added to it, so the id of its route table is not needed.
        cdk.Annotations.of(subnet).acknowledge_warning("@aws-cdk/aws-ec2:noSubnetRouteTableId")
        return subnet
