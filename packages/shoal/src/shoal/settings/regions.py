"""The regions that the project knows, their zones' ids, and what they lack (regions.yaml)."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.settings.parsing.errors import Problem
from shoal.settings.parsing.yaml_file import read_table

_TABLE: dict[str, Any] = read_table(__file__, "regions.yaml")


def az_id_prefixes() -> dict[str, str]:
    """Return the prefix of each region's availability zone ids, as in `us-east-1: use1`."""
    return dict(_TABLE["az_id_prefixes"])


def resource_types_not_in(region: str) -> tuple[str, ...]:
    """Return the resource types of our stacks that CloudFormation does not have in `region`."""
    return tuple(
        name for name, regions in _TABLE["resource_types_not_in"].items() if region in regions
    )


def problems(region: str, needs: Mapping[str, str]) -> Iterator[Problem]:
    """Yield what is wrong with a region; `needs` has a resource type by the key that asks for it.

    CloudFormation would refuse what a region lacks only after it has made the stacks before.
    """
    yield from problems_of_region("region", region)
    missing = resource_types_not_in(region)
    for key, resource_type in needs.items():
        if resource_type in missing:
            message = f"needs {resource_type}, which CloudFormation does not have in {region}"
            advice = "" if key == "region" else "remove it, or "
            yield Problem(key, message, f"{advice}choose another region", related=("region",))


def problems_of_region(key: str, region: str) -> Iterator[Problem]:
    """Yield a problem of `key` if this project does not know the region."""
    regions = az_id_prefixes()
    if region not in regions:
        message = (
            "is not a region of the partition `aws` that this project knows; known:"
            f" {', '.join(regions)}"
        )
        advice = "choose one, or add it to Shoal's settings/regions.yaml"
        # letters that changed places, first: us-esat-1 is as near to us-west-1 as to us-east-1
        anagrams = [each for each in regions if sorted(each) == sorted(region)]
        close = difflib.get_close_matches(region, regions, n=3)
        likeness = [difflib.SequenceMatcher(None, each, region).ratio() for each in close]
        same = [each for each, ratio in zip(close, likeness, strict=True) if ratio == likeness[0]]
        if nearest := anagrams or same:
            advice = f"did you mean {' or '.join(nearest)}?"
        yield Problem(key, message, advice, region)
