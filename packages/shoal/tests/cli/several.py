"""A checkout whose environment `dev` has two workloads, and `staging` takes releases of both."""

from __future__ import annotations

from pathlib import Path

from tests.repository import link_checkout

_WORKLOADS = """
workloads:
  mnist:
    training:
      strategy: torchrun
      instance_type: ml.m5.xlarge
      instance_count: 2
      hyperparameters: {epochs: 2, batch-size: 256, learning-rate: 0.01, seed: 1}
  prices:
    training:
      strategy: torchrun
      instance_type: ml.m5.xlarge
      instance_count: 2
      hyperparameters: {epochs: 40, batch-size: 64, learning-rate: 0.01, seed: 1}
"""
_SHARED = """name: {name}
account: "{account}"
region: us-east-1
protect: false
network:
  cidr: {cidr}
  training_az_id: use1-az4
  hosting_az_ids: [use1-az1, use1-az2]
"""
DEV = _SHARED.format(name="dev", account="111122223333", cidr="10.20.0.0/16") + _WORKLOADS
STAGING = (
    _SHARED.format(name="staging", account="222233334444", cidr="10.21.0.0/16")
    + "promoted_from: dev\n"
    + _WORKLOADS
)


def checkout_of_two(folder: Path) -> Path:
    """Make the empty `folder` such a checkout; return it."""
    root = link_checkout(folder)
    (root / "environments" / "dev.yaml").write_text(DEV)
    (root / "environments" / "staging.yaml").write_text(STAGING)
    (root / "environments" / "prod.yaml").unlink()
    return root
