"""The private addresses that the training subnet needs, and whether the nodes fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network

from shoal.launch.fabric import addresses_per_node
from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.network import AWS_RESERVES, Subnets, divide, training_ranges, usable
from shoal.settings.settings import Environment, Training

LARGEST_VPC_PREFIX = 16  # Amazon VPC user guide, "VPC CIDR blocks"
# Lustre user guide: at most one file server for this much; each has an interface, and so has the
# metadata server
_GIB_PER_FILE_SERVER = 1200


@dataclass(frozen=True)
class Addresses:
    """What takes addresses in the training subnet."""

    job: int
    """The nodes of one training job."""
    others: int
    """The evaluation job, the file system and the interface endpoints."""

    @property
    def min(self) -> int:
        return self.job + self.others

    @property
    def comfortable(self) -> int:
        """Room for two jobs: executions may overlap, and the last job's interfaces are released
        late.
        """
        return 2 * self.job + self.others


def addresses(environment: Environment) -> Addresses:
    """Return the addresses that `environment` takes in its training subnet."""
    training, file_system = environment.training, environment.file_system
    servers = 1 + -(-file_system.storage_capacity_gib // _GIB_PER_FILE_SERVER) if file_system else 0
    evaluation = addresses_per_node(environment.evaluation.instance_type)
    return Addresses(
        job=training.instance_count * _addresses_per_node(training),
        others=evaluation + servers + len(environment.interface_endpoints),
    )


def subnets(environment: Environment) -> Subnets:
    """Return how to divide the new VPC of `environment`."""
    network = environment.network
    # Where a workload may be added later, it must not move the subnets of the others.
    largest = usable(training_ranges(network.cidr)[-1])
    needed = addresses(environment).comfortable
    return divide(
        network.cidr,
        hosting=len(network.hosting_az_ids),
        training_addresses=largest if environment.workloads else needed,
    )


def problems(environment: Environment) -> Iterator[Problem]:
    """Refuse more nodes than the largest training subnet has addresses for.

    How many addresses an existing VPC has free, only AWS knows.
    """
    if environment.network.existing:
        return
    count, instance_type = environment.training.instance_count, environment.training.instance_type
    each, cidr = _addresses_per_node(environment.training), environment.network.cidr
    needed = addresses(environment)
    available = usable(training_ranges(cidr)[-1])
    if needed.min <= available:
        return
    message = (
        f"{count} nodes of {instance_type} take {needed.job} addresses ({each} each), and of the"
        f" {available} that a training subnet in {cidr} can have, {available - needed.others}"
        " are left for them"
    )
    advice = f"use at most {max(0, available - needed.others) // each} nodes"
    prefix = _prefix_for(needed.min)
    if LARGEST_VPC_PREFIX <= prefix < IPv4Network(cidr).prefixlen:
        advice += f", or a network.cidr that ends in /{prefix}"
    yield Problem("training.instance_count", message, advice, count)


def _addresses_per_node(training: Training) -> int:
    """Return the addresses of the largest type that an execution may choose."""
    return max(map(addresses_per_node, (training.instance_type, *training.other_instance_types)))


def _prefix_for(addresses: int) -> int:
    """Return the prefix of the smallest VPC that holds so many addresses in its half."""
    return 32 - ((addresses + AWS_RESERVES - 1).bit_length() + 1)
