"""The section `file_system` of an environment file: a file system for the training data, between S3
and the training nodes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from config.base import Settings

DATASETS_PATH = "/datasets"
"""Path on the file system that shows the data bucket's prefix `datasets/`."""


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
