"""The regions in which AWS's price list has the instance types of smddp.

Training jobs may be offered in fewer regions: the quota of the account decides. Source: cfn-lint's
instance types by region, which are made from AWS's price list. It has none for training jobs, so
those of SageMaker's clusters and endpoints count, and EC2's for a type that is in neither.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from shoal.launch import tables
from shoal.settings.regions import az_id_prefixes


@cache
def smddp_regions() -> tuple[str, ...]:
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
