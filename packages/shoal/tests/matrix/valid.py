"""Environments that must work, as changes to a small throw-away one, over smddp's regions."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shoal.launch import tables
from shoal.settings.loading.loader import load
from shoal.settings.regions import az_id_prefixes
from shoal.settings.settings import Environment
from tests.settings.environment_file import write_settings
from tests.settings.releases import trained_by
from tests.tables import table


@cache
def smddp_regions() -> tuple[str, ...]:
    """Return the regions in which AWS's price list has the instance types of smddp.

    Training jobs may be offered in fewer: the quota of the account decides. Source: cfn-lint's
    instance types by region, which are made from AWS's price list. It has none for training jobs,
    so those of SageMaker's clusters and endpoints count, and EC2's for a type that is in neither.
    """
    regions = {region for name in tables.smddp_instance_types() for region in _regions_of(name)}
    return tuple(sorted(regions))


def _regions_of(instance_type: str) -> set[str]:
    clusters = _regions_in("aws_sagemaker_cluster", instance_type)
    endpoints = _regions_in("aws_sagemaker_hosting", instance_type)
    ec2 = _regions_in("aws_ec2_instance", instance_type.removeprefix("ml."))
    return clusters | endpoints or ec2


def _regions_in(name: str, instance_type: str) -> set[str]:
    folder = Path(str(find_spec("cfnlint.data").submodule_search_locations[0]))  # type: ignore[union-attr, index]
    path = folder / "schemas" / "extensions" / name / "instancetype_enum.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {
        region
        for region, row in rows.items()
        if region in az_id_prefixes() and instance_type in row["enum"]
    }


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
