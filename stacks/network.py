"""The network of one environment: where training and hosting run."""

from constructs import Construct

from shoal.constructs.network import (
    ExistingNetwork,
    InterfaceEndpoints,
    PrivateNetwork,
    SecurityGroups,
)
from shoal.constructs.roles.guard_rails import Place
from shoal.constructs.shoal_stack import ShoalStack
from shoal.settings.names import Names


class NetworkStack(ShoalStack):
    """VPC, subnets, endpoints, flow logs and security groups; or only security groups, in an
    existing VPC. Training and hosting run in the places `training` and `hosting`.
    """

    def __init__(self, scope: Construct, *, names: Names) -> None:
        super().__init__(scope, "network", names=names)
        settings, several = names.environment.network, bool(names.environment.workloads)
        network: PrivateNetwork | ExistingNetwork
        if settings.existing is None:
            network = PrivateNetwork(self, "Network", names=names)
        else:
            network = ExistingNetwork(self, "Network", settings=settings, ids=settings.existing)
        groups = SecurityGroups(
            self, "SecurityGroups", vpc=network.vpc, settings=settings, several=several
        )
        if names.environment.interface_endpoints:
            InterfaceEndpoints(
                self,
                "Interfaces",
                names=names,
                vpc=network.vpc,
                subnet=network.training_subnet,
                callers=[groups.training, groups.hosting],
            )
        self.training = Place(network.vpc, [network.training_subnet], [groups.training])
        self.hosting = Place(network.vpc, network.hosting_subnets, [groups.hosting])
        places = (self.training, self.hosting)
        self.add_outputs(
            VpcId=network.vpc.vpc_id,
            TrainingSubnetId=network.training_subnet.subnet_id,
            HostingSubnetIds=",".join(self.hosting.subnet_ids),
            TrainingSecurityGroupId=groups.training.security_group_id,
            HostingSecurityGroupId=groups.hosting.security_group_id,
        )
        self.export_always(
            network.vpc.vpc_id,
            *(subnet for place in places for subnet in place.subnet_ids),
            *(group for place in places for group in place.security_group_ids),
        )
