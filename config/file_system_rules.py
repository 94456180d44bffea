"""The rules of the section `file_system`.

CloudFormation's schema, cfn-lint and the CDK accept combinations that Amazon FSx refuses after
minutes of deployment. Source: Amazon FSx API reference, CreateFileSystem (StorageCapacity) and
CreateFileSystemLustreConfiguration (PerUnitStorageThroughput).
"""

from __future__ import annotations

from collections.abc import Iterator

from config.errors import Problem
from config.file_system import DeploymentType
from config.settings import Environment, InputMode

THROUGHPUTS = (125, 250, 500, 1000)  # of PERSISTENT_2, SSD
SMALLEST_GIB, STEP_GIB = 1200, 2400
# Shoal's own limit: so many take 1001 addresses, half of a training subnet of the smallest VPC
LARGEST_GIB = 1_200_000


def _presence(environment: Environment) -> Iterator[Problem]:
    mounted = environment.data.input_mode is InputMode.FSX
    if mounted and environment.file_system is None:
        advice = (
            "add the section file_system, if only as `file_system: {}`, or use File or FastFile"
        )
        yield Problem(
            "data.input_mode", "needs a file system", advice, str(InputMode.FSX), ("file_system",)
        )
    if mounted and not environment.data.in_dataset:
        message = "nothing is read from the file system: every channel has a uri of its own"
        yield Problem("data.input_mode", message, "use File or FastFile", str(InputMode.FSX))
    if environment.file_system is not None and not mounted:
        message = (
            "nothing would read it, and it costs money: data.input_mode is"
            f" {environment.data.input_mode}"
        )
        yield Problem(
            "file_system",
            message,
            "set data.input_mode to FSx, or remove the section",
            related=("data.input_mode",),
        )


def _capacity(environment: Environment) -> Iterator[Problem]:
    if environment.file_system is None:
        return
    capacity = environment.file_system.storage_capacity_gib
    if capacity > LARGEST_GIB:
        message = (
            f"is more than {LARGEST_GIB} (1.1 PiB), the most that is allowed here: each 1200 GiB"
            " may take an address in the subnet"
        )
        yield Problem("file_system.storage_capacity_gib", message, "use less", capacity)
    elif capacity != SMALLEST_GIB and capacity % STEP_GIB:
        below = max(SMALLEST_GIB, capacity - capacity % STEP_GIB)
        message = f"must be {SMALLEST_GIB}, {STEP_GIB}, or a multiple of {STEP_GIB}"
        advice = f"use {below} or {capacity - capacity % STEP_GIB + STEP_GIB}"
        yield Problem("file_system.storage_capacity_gib", message, advice, capacity)


def _throughput(environment: Environment) -> Iterator[Problem]:
    if environment.file_system is None:
        return
    key, throughput = (
        "file_system.throughput_mbps_per_tib",
        environment.file_system.throughput_mbps_per_tib,
    )
    kind, allowed = environment.file_system.deployment_type, ", ".join(map(str, THROUGHPUTS))
    related = ("file_system.deployment_type",)
    if kind is DeploymentType.SCRATCH_2 and throughput is not None:
        yield Problem(
            key,
            "SCRATCH_2 has a fixed throughput",
            "remove it, or use deployment_type PERSISTENT_2",
            throughput,
            related,
        )
    if kind is DeploymentType.PERSISTENT_2 and throughput is None:
        yield Problem(key, "PERSISTENT_2 needs it", f"add one of {allowed}", related=related)
    if (
        kind is DeploymentType.PERSISTENT_2
        and throughput is not None
        and throughput not in THROUGHPUTS
    ):
        yield Problem(
            key,
            f"must be one of {allowed}",
            f"use {min(THROUGHPUTS, key=lambda allowed: abs(allowed - throughput))}",
            throughput,
            related,
        )


RULES = (_presence, _capacity, _throughput)
