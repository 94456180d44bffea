"""The private addresses that the training subnet needs, and whether the nodes fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network

from shoal.launch.fabric import addresses_per_node
from shoal.launch.tables import has_gpus
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
    evaluation = max(map(addresses_per_node, environment.evaluation.candidates))
    return Addresses(
        job=_most(training)[0],
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
    """Refuse more nodes than the largest training subnet has addresses for, and a wait that counts
    for none of the types (botocore 1.44.5, StoppingCondition.MaxPendingTimeInSeconds).

    How many addresses an existing VPC has free, only AWS knows.
    """
    training, key = environment.training, "training.capacity.max_pending_s"
    if training.capacity.max_pending_s and not any(map(has_gpus, training.candidates)):
        message = "bounds the wait for accelerated types only, and all of these have CPUs"
        advice = "remove it: a job on CPUs fails at once, and retry_for_s starts it again"
        yield Problem(key, message, advice, training.capacity.max_pending_s)
    if environment.network.existing:
        return
    is_reached = environment.network.nat or "ssmmessages" in environment.interface_endpoints
    if training.capacity.remote_debug and not is_reached:
        message = "the container's agent has no way from this VPC to Systems Manager"
        advice = "add ssmmessages to network.interface_endpoints, or set network.nat: true"
        yield Problem("training.capacity.remote_debug", message, advice, True)
    taken, count, instance_type = _most(environment.training)
    each, cidr = taken // count, environment.network.cidr
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


def _most(training: Training) -> tuple[int, int, str]:
    """Return the most addresses that a job may take, and the nodes and the type that take them."""
    return max(
        (count * addresses_per_node(kind), count, kind)
        for kind, count in training.candidates.items()
    )


def _prefix_for(addresses: int) -> int:
    """Return the prefix of the smallest VPC that holds so many addresses in its half."""
    return 32 - ((addresses + AWS_RESERVES - 1).bit_length() + 1)
