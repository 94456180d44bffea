"""Networks of the emulated EC2, file systems in them, and marks of tests that need this machine's
networks.
"""

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

IMPORT_ALL = {"AutoImportPolicy": {"Events": ["NEW", "CHANGED", "DELETED"]}}


def file_system(subnet: str, group: str, **changes: Any) -> dict[str, Any]:
    """Return a CreateFileSystem request, which `changes` may spoil."""
    return {
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "StorageCapacity": 1200,
        "SubnetIds": [subnet],
        "SecurityGroupIds": [group],
        "LustreConfiguration": {"DeploymentType": "SCRATCH_2"},
    } | changes


def association(path: str, uri: str, **changes: Any) -> dict[str, Any]:
    """Return what imports all below a URI of S3, without the file system."""
    place = {"FileSystemPath": path, "DataRepositoryPath": uri, "S3": IMPORT_ALL}
    return {**place, "BatchImportMetaDataOnCreate": True, **changes}


def new_vpc(ec2: Any, *groups: str) -> tuple[str, str, dict[str, str]]:
    """Create a VPC with a subnet and security groups of these names; return the ids."""
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24")["Subnet"]["SubnetId"]
    ids = {
        name: ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)["GroupId"]
        for name in groups
    }
    return vpc, subnet, ids
