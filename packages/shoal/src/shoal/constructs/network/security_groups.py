"""The security groups of training nodes, in which EFA works, and of endpoint instances.

Several workloads share the way out and to the file system. Among themselves only the nodes of one
workload may talk, because ranks answer any request to their ports.
"""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from shoal.constructs.roles.guard_rails import Place
from shoal.settings.names import Names
from shoal.settings.sections.network import Network


class SecurityGroups(Construct):
    """`training` (or the group that the settings name) and `hosting`.

    Our own groups let nothing in from outside themselves. Where the nodes of `several` workloads
    are in `training`, it does not let them in either: each workload has a `TrainingGroup` too.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        settings: Network,
        several: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        self._vpc, existing = vpc, settings.existing
        self.training: ec2.ISecurityGroup
        self._https = (
            "HTTPS to the internet and S3"
            if settings.nat or existing
            else "S3 through the gateway endpoint"
        )
        if existing and (group_id := existing.training_security_group_id):
            self.training = ec2.SecurityGroup.from_security_group_id(
                self, "Training", group_id, mutable=False
            )
        elif several:
            text = "Training nodes of all workloads: HTTPS out"
            self.training = self._group("Training", text)
        else:
            text = "Training nodes: everything among themselves, HTTPS out"
            group = self.training = self._group("Training", text)
            _allow_internally(group)
        self.hosting = self._group("Hosting", "Endpoint instances: HTTPS out")

    def _group(self, construct_id: str, description: str) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self, construct_id, vpc=self._vpc, allow_all_outbound=False, description=description
        )
        # S3's addresses are public ones. Where there is no way to the internet, this reaches the
        # gateway endpoint and nothing else.
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), self._https)
        return group


class TrainingGroup(ec2.SecurityGroup):
    """The second group of the training nodes of one workload, where there are several."""

    def __init__(self, scope: Construct, construct_id: str, *, vpc: ec2.IVpc) -> None:
        super().__init__(
            scope,
            construct_id,
            vpc=vpc,
            allow_all_outbound=False,
            description="Training nodes of one workload: everything among themselves",
        )
        _allow_internally(self)


def _allow_internally(group: ec2.SecurityGroup) -> None:
    """Let the members of the group send each other everything.

    EFA addresses are not IP addresses, so no CIDR rule covers them: both directions must name the
    group itself. With allow_all_outbound=True the CDK drops the egress half without a word.
    """
    group.connections.allow_internally(ec2.Port.all_traffic(), "EFA among the training nodes")


def own_training_place(scope: Construct, names: Names, shared: Place) -> Place:
    """Return where one workload trains: each of several has a security group of its own, unless
    the settings name one that exists.
    """
    existing = names.environment.network.existing
    if not names.environment.workloads or (existing and existing.training_security_group_id):
        return shared
    own = TrainingGroup(scope, "TrainingGroup", vpc=shared.vpc)
    return Place(shared.vpc, shared.subnets, [*shared.security_groups, own])
