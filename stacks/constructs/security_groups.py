"""The VPC goes in; the security groups of training nodes (EFA works in it) and of endpoint instances come out."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct


class SecurityGroups(Construct):
    """`training` and `hosting`; neither lets anything in from outside itself."""

    def __init__(self, scope: Construct, construct_id: str, *, vpc: ec2.IVpc) -> None:
        super().__init__(scope, construct_id)
        self.training = ec2.SecurityGroup(
            self, "Training", vpc=vpc, allow_all_outbound=False, description="Training nodes: everything among themselves, HTTPS out"
        )
        # EFA addresses are not IP addresses, so no CIDR rule covers them: both directions must name the group itself. With
        # allow_all_outbound=True the CDK drops the egress half without a word.
        self.training.connections.allow_internally(ec2.Port.all_traffic(), "EFA among the training nodes")
        self.hosting = ec2.SecurityGroup(self, "Hosting", vpc=vpc, allow_all_outbound=False, description="Endpoint instances: HTTPS out")
        for group in (self.training, self.hosting):
            # No internet gateway and no NAT: what this reaches is the S3 gateway endpoint.
            group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "S3 through the gateway endpoint")
