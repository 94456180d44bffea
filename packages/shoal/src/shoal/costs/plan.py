"""The stacks of an environment and what they cost, at rest and while an execution runs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shoal.costs import prices
from shoal.costs.prices import Price
from shoal.launch import tables
from shoal.pipelines.checks import demand
from shoal.pipelines.checks.check import check
from shoal.pipelines.checks.needs import Place, Unknown, place_of, places
from shoal.settings.names import SHARED_PARTS, Names
from shoal.settings.sections.network import usable
from shoal.settings.sections.serving import waits_s
from shoal.settings.settings import Environment

NOT_COUNTED = (
    "an existing VPC, storage in S3 and ECR, volumes of jobs, requests, logs and metrics, alarms"
    " and dashboards, data through endpoints and NAT, transfer, builds of images, discounts and"
    " taxes"
)
"""What costs money too, depending on use, and is in no sum."""


@dataclass(frozen=True)
class Stack:
    """One stack, in the order of deployment."""

    name: str
    holds: str


@dataclass(frozen=True)
class Line:
    """One thing that costs money for as long as it exists or runs."""

    what: str
    quantity: int
    each: Price | None
    """Price of one of them; None where the table has none."""

    @property
    def usd_per_hour(self) -> float | None:
        return self.each.usd_per_hour * self.quantity if self.each else None

    @property
    def price(self) -> str:
        mark = "~" if self.each and self.each.is_estimate else ""
        usd = self.usd_per_hour
        return "an unknown price" if usd is None else f"{mark}{usd:.2f} USD"


@dataclass(frozen=True)
class Bill:
    """Lines that are paid together."""

    lines: Sequence[Line]

    @property
    def usd_per_hour(self) -> float:
        """The sum of what has a price; see `unknown`."""
        return sum(line.usd_per_hour or 0.0 for line in self.lines)

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(line.what for line in self.lines if line.each is None)

    @property
    def is_estimate(self) -> bool:
        return any(line.each.is_estimate for line in self.lines if line.each)


@dataclass(frozen=True)
class Run:
    """The training on one instance type."""

    place: Place
    each: Price | None
    """Price of one instance; None where the table has none."""

    @property
    def hours(self) -> float | None:
        """All steps, without starting and saving; None where a step's time is not known."""
        seconds = self.place.need.seconds
        return seconds / 3600 if seconds else None

    @property
    def usd(self) -> float | None:
        if self.hours is None or self.each is None:
            return None
        return self.hours * self.place.nodes * self.each.usd_per_hour


@dataclass(frozen=True)
class Room:
    """What a rank needs of its GPU, and where there is as much."""

    here: Place
    runs: Sequence[Run]


@dataclass(frozen=True)
class Plan:
    """What `shoal plan` shows."""

    environment: Environment
    stacks: Sequence[Stack]
    at_rest: Bill
    training: Bill
    """While the training job runs."""
    testing: Bill
    """The evaluation job and, if there is one, the temporary endpoint, one after the other."""
    training_subnet: str | None
    """Its address range; None in an existing VPC."""
    addresses: demand.Addresses
    notes: Sequence[str]
    """What the numbers do not say, one sentence each."""
    room: Room | str = ""
    """Or why it is unknown; empty where the instances have no GPUs."""

    @property
    def while_training(self) -> Bill:
        """All that is paid while the training job runs."""
        return Bill((*self.at_rest.lines, *self.training.lines))

    @property
    def max_training_usd(self) -> float:
        """The training job's instances until it is stopped."""
        return self.training.usd_per_hour * self.environment.training.max_runtime_s / 3600

    @property
    def usable_addresses(self) -> int | None:
        return usable(self.training_subnet) if self.training_subnet else None


def plan(environment: Environment, notices: Sequence[str] = (), root: Path | None = None) -> Plan:
    """Return the plan of what `check` accepted; of several workloads, what this one adds."""
    training, endpoint = environment.training, environment.endpoint
    types = dict.fromkeys(environment.evaluation.candidates, 1)
    testing = [_dearest("evaluation", types, environment)]
    if endpoint:
        count = endpoint.instance_count
        testing.append(_instances("endpoint", endpoint.instance_type, count, environment))
    types = {training.instance_type: training.instance_count}
    if training.capacity.preferences:
        types = training.candidates
    shared = set(_shared_stacks(environment)) if environment.workloads else set[Stack]()
    return Plan(
        environment,
        stacks=tuple(each for each in _stacks(environment) if each not in shared),
        at_rest=Bill(tuple(_at_rest(environment))),
        training=Bill((_dearest("training", types, environment),)),
        testing=Bill(testing),
        training_subnet=(
            None if environment.network.existing else demand.subnets(environment).training
        ),
        addresses=demand.addresses(environment),
        notes=(*notices, *_notes(environment)),
        room=_room(environment, root) if root else "",
    )


def _instances(use: str, instance_type: str, count: int, environment: Environment) -> Line:
    price = prices.instance(instance_type, environment.region)
    return Line(f"{use} on {instance_type}", count, price)


def _dearest(use: str, counts: Mapping[str, int], environment: Environment) -> Line:
    lines = (_instances(use, *each, environment) for each in counts.items())
    return max(lines, key=lambda line: line.usd_per_hour or 0.0)


def _room(environment: Environment, root: Path) -> Room | str:
    training, region = environment.training, environment.region
    if not tables.has_gpus(training.instance_type):
        return ""
    try:
        here = place_of(environment, root)
    except Unknown as error:
        return str(error)
    there = places(environment, root, check)
    return Room(here, [Run(each, prices.instance(each.instance_type, region)) for each in there])


def shared_plan(plans: Sequence[Plan]) -> Plan:
    """Return what workloads with these plans cost together at rest: what they share counts once."""
    first = plans[0]
    environment = first.environment
    own = (
        replace(line, what=f"{each.environment.workload}: {line.what}")
        for each in plans
        for line in each.at_rest.lines
    )
    return replace(
        first,
        stacks=(*_shared_stacks(environment), *(stack for each in plans for stack in each.stacks)),
        at_rest=Bill((*_shared_at_rest(environment), *own)),
        training=Bill(()),
        testing=Bill(()),
        room="",
        notes=tuple(dict.fromkeys(note for each in plans for note in each.notes)),
    )


def _shared_stacks(environment: Environment) -> Iterator[Stack]:
    shared = {Names(environment).stack(part) for part in SHARED_PARTS}
    return (each for each in _stacks(environment) if each.name in shared)


def _stacks(environment: Environment) -> Iterator[Stack]:
    """Yield each stack after those it needs: data before network, as its key encrypts flow logs."""
    network, images = environment.network, environment.built_images
    vpc = ["VPC", "subnets", "S3 gateway endpoint", "security groups", "flow logs"]
    vpc += ["NAT gateway"] if network.nat else []
    vpc += ["interface endpoints"] if environment.interface_endpoints else []
    own = "security groups in an existing VPC" if network.existing else ", ".join(vpc)
    guard = ", teardown guard" if environment.endpoint else ""
    guard += ", the same of scoring" if environment.scoring else ""
    parts = {"data": "key, buckets", "network": own}
    if environment.file_system:
        parts["file-system"] = "FSx for Lustre, linked to the data bucket"
    if images:
        parts["image"] = f"repository and build of {' and '.join(images.values())}"
    parts["pipeline"] = f"roles, pipeline, model registry, functions{guard}"
    parts["monitoring"] = "alarms, dashboard, sweeper, pages of runs"
    if environment.serving and environment.release:
        parts["serving"] = f"endpoint of {environment.release.version}, rollback alarms, proof"
    names = Names(environment)
    return (Stack(names.stack(part), holds) for part, holds in parts.items())


def _at_rest(environment: Environment) -> Iterator[Line]:
    """Yield what is paid while nothing trains; of one of several workloads, what it adds."""
    images, key = len(environment.built_images), environment.organisation.kms_key_arn
    if not environment.workloads:
        yield from _shared_at_rest(environment, keys=1 + images)
    elif images and not key:
        yield Line(
            "KMS key of the image", images, prices.find("monthly", "kms_key", environment.region)
        )
    serving = environment.serving
    # the fewest instances; serverless inference costs nothing without requests
    if serving and environment.release and serving.serverless is None:
        scaling = serving.autoscaling
        count = scaling.min if scaling else serving.instance_count
        line = _instances("serving", serving.instance_type, count, environment)
        yield replace(line, what=f"{line.what}, at least") if scaling else line


def _shared_at_rest(environment: Environment, keys: int = 1) -> Iterator[Line]:
    network, settings, region = environment.network, environment.file_system, environment.region
    if not environment.organisation.kms_key_arn:
        yield Line("KMS key", keys, prices.find("monthly", "kms_key", region))
    if settings:
        per_tib = settings.throughput_mbps_per_tib
        throughput = f", {per_tib} MB/s per TiB" if per_tib else ""
        size = f"{settings.storage_capacity_gib} GiB{throughput}"
        what = f"FSx for Lustre {settings.deployment_type}, {size}"
        yield Line(what, 1, prices.file_system(settings, region))
    for service in environment.interface_endpoints:
        price = prices.find("hourly", "interface_endpoint", region)
        yield Line(f"interface endpoint {service}, one zone", 1, price)
    if network.nat:
        yield Line("NAT gateway", 1, prices.find("hourly", "nat_gateway", region))
        address = prices.find("hourly", "public_ipv4_address", region)
        yield Line("public address of the NAT gateway", 1, address)


def _notes(environment: Environment) -> Iterator[str]:
    network, region = environment.network, environment.region
    ways = (
        ("nat_gateway", "the NAT gateway", network.nat),
        ("interface_endpoint", "an interface endpoint", environment.interface_endpoints),
    )
    for name, what, setting in ways:
        if setting:
            usd = prices.usd_per_gb(name, region)
            amount = "an unknown amount" if usd is None else f"~{usd} USD"
            yield f"each GB through {what} costs {amount} besides; S3 is reached past it"
    for recipe in environment.built_images.values():
        yield (
            f"images/{recipe} is built once per version, by CodeBuild: some 20 minutes, which"
            " `shoal deploy` waits for, and less than one USD"
        )
    yield from _serving_notes(environment)
    if scoring := environment.scoring:
        line = _instances("scoring", scoring.instance_type, scoring.instance_count, environment)
        times = [f"{each.name}, {each.expression}" for each in scoring.schedules]
        starts = "; ".join(["by `shoal run --score`", *times])
        yield (
            f"{line.what} x {line.quantity} costs {line.price} an hour while it runs, started"
            f" {starts}"
        )
    if environment.training.capacity.preferences:
        listed = environment.training.candidates.items()
        lines = [(_instances("training", *each, environment), *each) for each in listed]
        # cheapest first
        for line, kind, count in sorted(lines, key=lambda each: each[0].usd_per_hour or math.inf):
            yield f"{count} x {kind}, if training gets it, costs {line.price} an hour"
        yield "the sums have the dearest of these; what SageMaker selects is billed"
    if environment.training.spot:
        yield (
            "training is on spot capacity, which costs less than the on-demand price shown; its"
            " price moves"
        )
    if environment.pipeline:
        yield (
            f"the pipeline is your own ({environment.pipeline}); the instances shown are those of"
            " the settings, not of its steps"
        )
    if tags := Names(environment).bill_tags:
        words = ", ".join(f"{key}={value}" for key, value in tags.items())
        yield f"the bill has what is spent here under the tags {words}, once they are activated"
    yield f"in no sum: {NOT_COUNTED}"


def _serving_notes(environment: Environment) -> Iterator[str]:
    serving = environment.serving
    if serving is None or environment.release is None:
        return
    if serving.serverless:
        yield (
            "serverless inference is paid by the time that requests take and by the data they move;"
            " nothing while nobody asks"
        )
    else:
        minutes = math.ceil(waits_s(serving) / 60)
        yield (
            f"while a release is rolled out, at least {minutes} min, the instances of the old and"
            " the new fleet are paid for"
        )
        if serving.autoscaling:
            yield (
                f"autoscaling may start up to {serving.autoscaling.max} instances of"
                f" {serving.instance_type}"
            )
