"""Combinations of what an environment may have synthesise in one app, with cdk-nag, the CDK's
validator and our own rules.

The cases that use most pass cfn-lint in every region of smddp.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from cfnlint.api import lint
from cfnlint.config import ConfigMixIn, ManualArgs
from cfnlint.rules import RulesCollection
from cfnlint.runner import Runner
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from shoal.constructs import use_installed_node
from shoal.launch import tables
from shoal.settings.loading.loader import load
from shoal.settings.regions import az_id_prefixes, resource_types_not_in
from shoal.settings.settings import Environment

use_installed_node()

from local_kit.tables import table  # noqa: E402
from shoal.constructs.app import feature_flags  # noqa: E402 - starts Node.js
from tests.app import ShoalApp  # noqa: E402
from tests.repository import ROOT  # noqa: E402
from tests.settings.environment_file import trained_by, write_settings  # noqa: E402
from tests.stacks.reading import violations  # noqa: E402

pytestmark = pytest.mark.nightly
"""The other tests of stacks synthesise each option once; here are combinations, and all regions."""
LINTED = ("all", "vpc-fsx")
"""Between them they have every type of resource."""
IGNORED = ["W3005"]
"""The CDK writes a DependsOn for everything below a construct, also where a reference says so."""


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


CASES: dict[str, dict[str, Any]] = table(__file__, "cases.yaml")["combinations"]


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


@dataclass(frozen=True)
class Synthesised:
    """What became of all cases."""

    folder: Path
    findings: dict[str, list[str]]
    """Case -> the rules that it breaks, and where."""

    def templates(self, case: str) -> list[Path]:
        return sorted((self.folder / f"assembly-{case}").glob("*.template.json"))


@pytest.fixture(scope="session")
def synthesised(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    outdir = tmp_path_factory.mktemp("matrix")
    app = ShoalApp(outdir=str(outdir), context=feature_flags(ROOT))
    folder = tmp_path_factory.mktemp("environments")
    for name in CASES:
        app.add_environment([environment(name, folder)], root=ROOT)
    findings: dict[str, list[str]] = defaultdict(list)
    try:
        app.synth()
    except RuntimeError:
        for case, finding in _findings(outdir):
            findings[case].append(finding)
    return Synthesised(outdir, findings)


def _findings(outdir: Path) -> Iterator[tuple[str, str]]:
    for _, violation in violations(outdir):
        for construct in violation["violatingConstructs"]:
            path = str(construct["constructPath"])
            text = f"{violation['ruleName']} at {path}: {violation['description']}"
            yield path.partition("/")[0], text


@pytest.mark.parametrize("name", CASES)
def test_the_combination_synthesises_and_passes_every_gate(
    synthesised: Synthesised, name: str
) -> None:
    assert synthesised.findings.get(name, []) == []
    assert synthesised.templates(name)


def test_the_matrix_is_in_every_region_of_smddp(synthesised: Synthesised) -> None:
    places = {
        artifact["environment"].rpartition("/")[2]
        for path in synthesised.folder.glob("assembly-*/manifest.json")
        for artifact in json.loads(path.read_text())["artifacts"].values()
        if "environment" in artifact
    }
    assert places == set(smddp_regions())


def _types(*templates: Path) -> set[str]:
    every = (json.loads(path.read_text())["Resources"].values() for path in templates)
    return {resource["Type"] for resources in every for resource in resources}


@pytest.fixture(scope="session")
def rules() -> RulesCollection:
    return Runner(ConfigMixIn(**ManualArgs(ignore_checks=IGNORED))).rules


@pytest.mark.parametrize("case", LINTED)
def test_cfn_lint_passes_every_template_in_every_region_of_smddp(
    synthesised: Synthesised, rules: RulesCollection, case: str
) -> None:
    for path in synthesised.templates(case):
        types = _types(path)
        regions = [each for each in smddp_regions() if not types & {*resource_types_not_in(each)}]
        options = ManualArgs(regions=regions, ignore_checks=IGNORED)
        assert lint(path.read_text(), rules=rules, config=options) == []


def test_what_is_linted_has_every_type_of_resource_that_any_combination_has(
    synthesised: Synthesised,
) -> None:
    assert _types_of(synthesised, CASES) - _types_of(synthesised, LINTED) == set()


@pytest.mark.parametrize("region", az_id_prefixes())
def test_the_table_of_regions_knows_what_cloudformation_does_not_have_there(
    synthesised: Synthesised, region: str
) -> None:
    used = {kind for kind in _types_of(synthesised, LINTED) if kind.startswith("AWS::")}
    missing = used - set(PROVIDER_SCHEMA_MANAGER.get_resource_types(region))
    assert missing == set(resource_types_not_in(region))


def _types_of(synthesised: Synthesised, cases: Iterable[str]) -> set[str]:
    return {kind for case in cases for kind in _types(*synthesised.templates(case))}
