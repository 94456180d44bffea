"""Networks of the emulated EC2, and marks of tests that need this machine's."""

from typing import Any

import pytest

from shoal_local.sagemaker.container import launch

needs_namespaces = pytest.mark.skipif(
    launch.isolation_refused() is not None, reason="this machine makes no namespaces"
)
needs_networks = pytest.mark.skipif(
    launch.networks_refused() is not None,
    reason="this machine gives hosts no networks of their own",
)


def new_vpc(ec2: Any, *groups: str) -> tuple[str, str, dict[str, str]]:
    """Create a VPC with a subnet and security groups of these names; return the ids."""
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24")["Subnet"]["SubnetId"]
    ids = {
        name: ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)["GroupId"]
        for name in groups
    }
    return vpc, subnet, ids
