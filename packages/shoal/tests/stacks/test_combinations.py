"""Every valid combination synthesises in one app, with cdk-nag, the CDK's validator and our own
rules.

The cases that use most pass cfn-lint in every region of smddp.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cfnlint.api import lint
from cfnlint.config import ConfigMixIn, ManualArgs
from cfnlint.rules import RulesCollection
from cfnlint.runner import Runner
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from shoal.constructs import use_installed_node
from shoal.settings.regions import az_id_prefixes, resource_types_not_in
from tests.matrix.valid import CASES, environment, smddp_regions

use_installed_node()

from shoal.constructs.app import feature_flags  # noqa: E402 - starts Node.js
from tests.app import ShoalApp  # noqa: E402
from tests.repository import ROOT  # noqa: E402

pytestmark = pytest.mark.nightly
"""Each option is synthesised once in packages/shoal/tests/stacks; here are their combinations, and
all regions."""
LINTED = ("all", "vpc-fsx")
"""Between them they have every type of resource."""
IGNORED = [
    "W3005"
]  # the CDK writes a DependsOn for everything below a construct, also where a reference says the same  # noqa: E501


@dataclass(frozen=True)
class Synthesised:
    """What became of all cases."""

    folder: Path
    findings: dict[str, list[str]]
    """Case -> the rules that it breaks, and where."""
    seconds: float

    def templates(self, case: str) -> list[Path]:
        return sorted((self.folder / f"assembly-{case}").glob("*.template.json"))


@pytest.fixture(scope="session")
def synthesised(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    started_at, outdir = time.monotonic(), tmp_path_factory.mktemp("matrix")
    app = ShoalApp(outdir=str(outdir), context=feature_flags(ROOT))
    folder = tmp_path_factory.mktemp("environments")
    for name in CASES:
        app.add_environment([environment(name, folder)], root=ROOT)
    findings: dict[str, list[str]] = defaultdict(list)
    try:
        app.synth()
    except RuntimeError:
        for case, finding in _findings(outdir / "validation-report.json"):
            findings[case].append(finding)
    return Synthesised(outdir, findings, time.monotonic() - started_at)


def _findings(report: Path) -> Iterator[tuple[str, str]]:
    for plugin in json.loads(report.read_text())["pluginReports"]:
        for violation in plugin["violations"]:
            for construct in violation["violatingConstructs"]:
                path = str(construct["constructPath"])
                yield (
                    path.partition("/")[0],
                    f"{violation['ruleName']} at {path}: {violation['description']}",
                )


@pytest.mark.parametrize("name", CASES)
def test_the_combination_synthesises_and_passes_every_gate(
    synthesised: Synthesised, name: str
) -> None:
    assert synthesised.findings.get(name, []) == []
    assert synthesised.templates(name)


def test_the_matrix_is_in_every_region_of_smddp(
    synthesised: Synthesised,
) -> None:
    manifests = [
        json.loads(path.read_text()) for path in synthesised.folder.glob("assembly-*/manifest.json")
    ]
    artifacts = [
        artifact
        for manifest in manifests
        for artifact in manifest["artifacts"].values()
        if "environment" in artifact
    ]
    places = {artifact["environment"].rpartition("/")[2] for artifact in artifacts}
    assert places == set(smddp_regions())


def _types(templates: list[Path]) -> set[str]:
    return {
        resource["Type"]
        for path in templates
        for resource in json.loads(path.read_text())["Resources"].values()
    }


@pytest.fixture(scope="session")
def rules() -> RulesCollection:
    return Runner(ConfigMixIn(**ManualArgs(ignore_checks=IGNORED))).rules


@pytest.mark.parametrize("case", LINTED)
def test_cfn_lint_passes_every_template_in_every_region_of_smddp(
    synthesised: Synthesised, rules: RulesCollection, case: str
) -> None:
    for path in synthesised.templates(case):
        regions = [
            region
            for region in smddp_regions()
            if not _types([path]) & set(resource_types_not_in(region))
        ]
        assert (
            lint(
                path.read_text(),
                rules=rules,
                config=ManualArgs(regions=regions, ignore_checks=IGNORED),
            )
            == []
        )


def test_what_is_linted_has_every_type_of_resource_that_any_combination_has(
    synthesised: Synthesised,
) -> None:
    everything = {kind for case in CASES for kind in _types(synthesised.templates(case))}
    assert (
        everything - {kind for case in LINTED for kind in _types(synthesised.templates(case))}
        == set()
    )


@pytest.mark.parametrize("region", az_id_prefixes())
def test_the_table_of_regions_knows_what_cloudformation_does_not_have_there(
    synthesised: Synthesised, region: str
) -> None:
    used = {
        kind
        for case in LINTED
        for kind in _types(synthesised.templates(case))
        if kind.startswith("AWS::")
    }
    assert used - set(PROVIDER_SCHEMA_MANAGER.get_resource_types(region)) == set(
        resource_types_not_in(region)
    )
