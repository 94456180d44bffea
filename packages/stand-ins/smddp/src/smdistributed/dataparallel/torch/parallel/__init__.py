"""DistributedDataParallel of the first API."""

from .distributed import DistributedDataParallel as DistributedDataParallel
