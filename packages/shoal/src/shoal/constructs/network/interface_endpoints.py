"""Interface endpoints, through which code in the VPC calls AWS services without the internet."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from shoal.settings.names import Names
from shoal.settings.sections.network import InterfaceEndpoint


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
        self._names, self._vpc, self._subnet = names, vpc, subnet
        self._group = ec2.SecurityGroup(
            self,
            "Endpoints",
            vpc=vpc,
            allow_all_outbound=False,
            description="Interface endpoints: HTTPS from our own instances",
        )
        for caller in callers:
            self._group.add_ingress_rule(caller, ec2.Port.tcp(443), "Calls from our own instances")
        for service in names.environment.interface_endpoints:
            self._endpoint(service)

    def _endpoint(self, service: InterfaceEndpoint) -> None:
        construct_id = "".join(word.capitalize() for word in service.value.split("."))
        endpoint = ec2.InterfaceVpcEndpoint(
            self,
            construct_id,
            vpc=self._vpc,
            service=ec2.InterfaceVpcEndpointService(
                service.service_name(self._names.environment.region)
            ),
            subnets=ec2.SubnetSelection(subnets=[self._subnet]),
            security_groups=[self._group],
            private_dns_enabled=True,
            open=False,
        )
        endpoint.add_to_policy(
            iam.PolicyStatement(
                sid="OwnAccountOnly",
                principals=[iam.AnyPrincipal()],
                actions=["*"],
                resources=["*"],
                conditions={
                    "StringEquals": {"aws:PrincipalAccount": self._names.environment.account}
                },
            )
        )
