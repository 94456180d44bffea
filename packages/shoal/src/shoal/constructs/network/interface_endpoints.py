"""Interface endpoints, through which code in the VPC calls AWS services without the internet."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from shoal.settings.names import Names


class InterfaceEndpoints(Construct):
    """One endpoint for each service, all in `subnet`: other subnets reach it too, and each further
    zone would cost the same again.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        callers: Sequence[ec2.ISecurityGroup],
    ) -> None:
        super().__init__(scope, construct_id)
        group = ec2.SecurityGroup(
            self,
            "Endpoints",
            vpc=vpc,
            allow_all_outbound=False,
            description="Interface endpoints: HTTPS from our own instances",
        )
        for caller in callers:
            group.add_ingress_rule(caller, ec2.Port.tcp(443), "Calls from our own instances")
        own_account = {"StringEquals": {"aws:PrincipalAccount": names.environment.account}}
        for each in names.environment.interface_endpoints:
            endpoint = ec2.InterfaceVpcEndpoint(
                self,
                "".join(word.capitalize() for word in each.value.split(".")),
                vpc=vpc,
                service=ec2.InterfaceVpcEndpointService(
                    each.service_name(names.environment.region)
                ),
                subnets=ec2.SubnetSelection(subnets=[subnet]),
                security_groups=[group],
                private_dns_enabled=True,
                open=False,
            )
            endpoint.add_to_policy(
                iam.PolicyStatement(
                    sid="OwnAccountOnly",
                    principals=[iam.AnyPrincipal()],
                    actions=["*"],
                    resources=["*"],
                    conditions=own_account,
                )
            )
