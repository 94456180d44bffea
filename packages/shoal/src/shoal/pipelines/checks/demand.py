"""What an environment takes of what is limited: private addresses of the training subnet, and
quotas that its whole account shares (quotas.yaml).

`shoal check` compares these with what a new account has, `shoal doctor` with what this one has.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Network

from shoal.launch.contract import addresses_per_node
from shoal.launch.tables import has_gpus, has_nvme
from shoal.settings.parsing.errors import Problem
from shoal.settings.parsing.yaml_file import read_table
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
        """Room for two jobs: executions may overlap, and interfaces are released late."""
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
    taken, count, instance_type = _most(training)
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
    # of the smallest VPC that holds so many addresses in its half
    prefix = 31 - (needed.min + AWS_RESERVES - 1).bit_length()
    if LARGEST_VPC_PREFIX <= prefix < IPv4Network(cidr).prefixlen:
        advice += f", or a network.cidr that ends in /{prefix}"
    yield Problem("training.instance_count", message, advice, count)


def _most(training: Training) -> tuple[int, int, str]:
    """Return the most addresses that a job may take, and the nodes and the type that take them."""
    return max(
        (count * addresses_per_node(kind), count, kind)
        for kind, count in training.candidates.items()
    )


@dataclass(frozen=True)
class Quota:
    """A quota as Service Quotas names it."""

    name: str
    code: str
    default: int
    """What a new account has, in the quota's own unit."""
    service: str = "sagemaker"


@dataclass(frozen=True)
class Need:
    """How much of a quota one key of the file takes, at a time."""

    quota: Quota
    key: str
    count: int
    is_for_training: bool
    """Whether only an execution needs it: where releases are promoted to, none has to run."""


@cache
def quotas() -> dict[str, Quota]:
    """Return the quotas of quotas.yaml."""
    return {name: Quota(**row) for name, row in read_table(__file__, "quotas.yaml").items()}


def needs(environment: Environment) -> Iterator[Need]:
    """Yield what each key takes. What several keys take of one quota adds up."""
    training, endpoint = environment.training, environment.endpoint
    serving = environment.serving
    spot = "spot " if training.spot else ""
    count, key = max(training.candidates.values()), "training.instance_count"
    rows = [
        (f"instances of all {spot}trainings", key, count, True),
        (f"instances of a {spot}training", key, count, True),
        ("seconds of a training", "training.max_runtime_s", training.max_runtime_s, True),
        ("instances of all evaluations", "evaluation", 1, True),
    ]
    if not all(map(has_nvme, training.candidates)):
        size = training.volume_size_gb
        rows.append(("volume of a training", "training.volume_size_gb", size, True))
    if endpoint:
        key, count = "endpoint.instance_count", endpoint.instance_count
        rows.append(("instances of all endpoints", key, count, True))
        rows.append(("instances of an endpoint", key, count, True))
    if serving and serving.serverless:
        key, count = "serving.serverless.max_concurrency", serving.serverless.max_concurrency
        rows.append(("requests of serverless endpoints", key, count, False))
    elif serving:
        scaling = serving.autoscaling
        key = "serving.autoscaling.max" if scaling else "serving.instance_count"
        count = scaling.max if scaling else serving.instance_count
        # Both fleets run while a release rolls out.
        rows.append(("instances of all endpoints", key, 2 * count, False))
        rows.append(("instances of an endpoint", key, count, False))
    if environment.scoring:
        key, count = "scoring.instance_count", environment.scoring.instance_count
        rows.append(("instances of all scorings", key, count, False))
    for name, key, count, is_for_training in rows:
        yield Need(quotas()[name], key, count, is_for_training)


def quota_notices(environment: Environment) -> Iterator[str]:
    """Yield the keys that ask for more than a new account has, one line for each quota, and a wait
    that ends another.

    Source: AWS Batch user guide on jobs that wait for capacity ("times out: STOPPED"); SageMaker
    developer guide, "Retry Policy for Pipeline Steps", whose exceptions name no stopped job.
    """
    capacity = environment.training.capacity
    if capacity.max_pending_s and capacity.retry_for_s:
        yield (
            "training.capacity.retry_for_s: SageMaker stops a job after max_pending_s"
            f" ({capacity.max_pending_s}), and no retry follows a stopped job; keep one of the two"
        )
    for need in needs(environment):
        is_idle = need.is_for_training and environment.promoted_from is not None
        if need.count > need.quota.default and not is_idle:
            yield (
                f"{need.key}: needs {need.count} of `{need.quota.name}` ({need.quota.code});"
                f" a new account has {need.quota.default}, ask `shoal doctor {environment.name}`"
            )
