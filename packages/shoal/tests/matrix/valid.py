"""Environments that must work, as changes to a small throw-away one, over smddp's regions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.settings.loading.loader import load
from shoal.settings.regions import az_id_prefixes
from shoal.settings.settings import Environment
from tests.matrix.regions import smddp_regions
from tests.settings.environment_file import write_settings
from tests.settings.releases import trained_by
from tests.tables import table

CASES: dict[str, dict[str, Any]] = table(__file__, "valid.yaml")


def environment(name: str, folder: Path) -> Environment:
    """Return the environment of a case, loaded from `folder` as a user's file is. Raises
    ConfigError.
    """
    changes = dict(CASES[name])
    region = changes.pop("region", smddp_regions()[list(CASES).index(name) % len(smddp_regions())])
    network = dict(changes.pop("network", {}))
    if "serving" in changes:
        changes["release"] = trained_by(name, region)
    written = {
        "name": name,
        "workload": "mnist",
        "account": "111122223333",
        "region": region,
        "protect": False,
        "network": zones(region, network),
        **changes,
        "evaluation": {"gates": [{"metric": "accuracy", "at_least": 0.98}]}
        | changes.get("evaluation", {}),
    }
    return load(write_settings(folder, written, name))


def zones(region: str, network: dict[str, Any]) -> dict[str, Any]:
    """Return the section network with zones of the region.

    `hosting` says how many; `shared` puts training into one of them.
    """
    prefix, hosting = az_id_prefixes()[region], network.pop("hosting", 2)
    first = 1 if network.pop("shared", False) else 2
    ids = [f"{prefix}-az{number}" for number in range(first, first + hosting)]
    return {"training_az_id": f"{prefix}-az1", "hosting_az_ids": ids, **network}
