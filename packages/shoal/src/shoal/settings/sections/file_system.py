"""The section `file_system` of an environment file: a file system for the training data, between S3
and the training nodes.

CloudFormation's schema, cfn-lint and the CDK accept combinations that Amazon FSx refuses after
minutes of deployment. Source: Amazon FSx API reference, CreateFileSystem (StorageCapacity) and
CreateFileSystemLustreConfiguration (PerUnitStorageThroughput).
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from shoal.settings.parsing.base import Settings
from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.channels import Data, InputMode

DATASETS_PATH = "/datasets"
"""Path on the file system that shows the data bucket's prefix `datasets/`."""
THROUGHPUTS = (125, 250, 500, 1000)  # of PERSISTENT_2, SSD
SMALLEST_GIB, STEP_GIB = 1200, 2400
# Shoal's own limit: so many take 1001 addresses, half of a training subnet of the smallest VPC
LARGEST_GIB = 1_200_000


class DeploymentType(StrEnum):
    """Kind of an FSx for Lustre file system."""

    SCRATCH_2 = "SCRATCH_2"
    PERSISTENT_2 = "PERSISTENT_2"


class FileSystem(Settings):
    """Amazon FSx for Lustre, version 2.15, fed from the data bucket.

    It costs money as long as its stack exists.
    """

    deployment_type: DeploymentType = DeploymentType.SCRATCH_2
    """SCRATCH_2 (data is lost when a server fails; S3 has it) or PERSISTENT_2 (replicated in its
    zone, throughput as chosen).
    """
    storage_capacity_gib: Annotated[int, Field(ge=1200)] = 1200
    """Size in GiB: 1200, 2400, or a multiple of 2400."""
    throughput_mbps_per_tib: int | None = None
    """Throughput in MB/s for each TiB: 125, 250, 500 or 1000; PERSISTENT_2 needs it, SCRATCH_2 has
    a fixed one.
    """
    compress: bool = True
    """Compress what is stored (LZ4)."""
    export_changes: bool = False
    """Copy files that are new or changed on the file system to the data bucket: only for writers of
    your own, since training mounts it read-only. Deletions are never carried to the bucket.
    """


def problems(file_system: FileSystem | None, data: Data) -> Iterator[Problem]:
    """Yield what is wrong with the section beside the section `data`."""
    mounted, key = data.input_mode is InputMode.FSX, "data.input_mode"
    if mounted and file_system is None:
        advice = (
            "add the section file_system, if only as `file_system: {}`, or use File or FastFile"
        )
        yield Problem(key, "needs a file system", advice, related=("file_system",))
    if mounted and not data.in_dataset:
        message = "nothing is read from the file system: every channel has a uri of its own"
        yield Problem(key, message, "use File or FastFile")
    if file_system is None:
        return
    if not mounted:
        message = f"nothing would read it, and it costs money: data.input_mode is {data.input_mode}"
        advice = "set data.input_mode to FSx, or remove the section"
        yield Problem("file_system", message, advice, related=(key,))
    yield from _throughput(file_system)
    key, capacity = "file_system.storage_capacity_gib", file_system.storage_capacity_gib
    below = capacity - capacity % STEP_GIB
    if capacity > LARGEST_GIB:
        message = (
            f"is more than {LARGEST_GIB} (1.1 PiB), the most that is allowed here: each 1200 GiB"
            " may take an address in the subnet"
        )
        yield Problem(key, message, "use less")
    elif capacity not in (SMALLEST_GIB, below):
        message = f"must be {SMALLEST_GIB}, {STEP_GIB}, or a multiple of {STEP_GIB}"
        advice = f"use {max(SMALLEST_GIB, below)} or {below + STEP_GIB}"
        yield Problem(key, message, advice)


def _throughput(file_system: FileSystem) -> Iterator[Problem]:
    key, throughput = "file_system.throughput_mbps_per_tib", file_system.throughput_mbps_per_tib
    allowed, related = ", ".join(map(str, THROUGHPUTS)), ("file_system.deployment_type",)
    if file_system.deployment_type is DeploymentType.SCRATCH_2:
        if throughput is not None:
            advice = "remove it, or use deployment_type PERSISTENT_2"
            yield Problem(key, "SCRATCH_2 has a fixed throughput", advice, related=related)
    elif throughput is None:
        yield Problem(key, "PERSISTENT_2 needs it", f"add one of {allowed}", related=related)
    elif throughput not in THROUGHPUTS:
        nearest = min(THROUGHPUTS, key=lambda allowed: abs(allowed - throughput))
        yield Problem(key, f"must be one of {allowed}", f"use {nearest}", related=related)
