"""A NAT gateway through which private subnets can open connections to the internet."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from constructs import Construct


class InternetAccess(Construct):
    """One gateway for all subnets.

    It stands in `public_subnet`, which holds nothing else. Nothing can connect inwards.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.Vpc,
        public_subnet: ec2.PublicSubnet,
        private_subnets: Sequence[ec2.PrivateSubnet],
    ) -> None:
        super().__init__(scope, construct_id)
        gateway = ec2.CfnInternetGateway(self, "InternetGateway")
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "Attachment", vpc_id=vpc.vpc_id, internet_gateway_id=gateway.ref
        )
        public_subnet.add_default_internet_route(gateway.ref, attachment)
        nat = public_subnet.add_nat_gateway()
        # More than one zone behind one gateway: if its zone fails, the others lose the internet,
        # which none of our own traffic needs.
        for subnet in private_subnets:
            subnet.add_default_nat_route(nat.ref)
