"""Templates: the rows of templates.yaml, logical ids that are written down, exports, and tags.

A logical id is a contract with what is deployed: CloudFormation replaces a resource whose id
changes, a bucket with its data included. When that is intended,
`python -m tests.stacks.test_templates` writes logical_ids.json again. Nor does a stack withdraw
an export that another, deployed before with other settings, still imports: CloudFormation refuses
that (user guide, "Fn::ImportValue").
"""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from shoal.constructs import use_installed_node
from shoal.launch import launch_of
from shoal.settings.loading.loader import load_environment, load_workloads

use_installed_node()

import aws_cdk as cdk  # noqa: E402 - starts Node.js

from local_kit.tables import rows, table  # noqa: E402
from shoal.constructs.app import Deployment, feature_flags  # noqa: E402
from stacks.platform import EnvironmentStage  # noqa: E402
from tests.app import ShoalApp  # noqa: E402
from tests.repository import ROOT  # noqa: E402
from tests.settings.environment_file import RELEASE, copy_workloads  # noqa: E402
from tests.stacks.conftest import EVERYTHING, MakeVariant, TemplateOf, variant  # noqa: E402
from tests.stacks.reading import Row, differences, template_of_stack  # noqa: E402
from tests.stacks.reading import rows as rows_of_templates  # noqa: E402

FILE = Path(__file__).with_name("logical_ids.json")


def logical_ids() -> dict[str, dict[str, str]]:
    """Return logical id -> resource type, by stack, and by `<environment>/<stack>` where only one
    of dev and prod has them.
    """
    shared, own = dict[str, dict[str, str]](), dict[str, dict[str, str]]()
    dev, prod = _types("dev"), _types("prod")
    for part in {**dev, **prod}:
        both = dev.get(part, {}).items() & prod.get(part, {}).items()
        shared |= {part: dict(sorted(both))} if both else {}
        for name, types in (("dev", dev), ("prod", prod)):
            rest = types.get(part, {}).items() - both
            own |= {f"{name}/{part}": dict(sorted(rest))} if rest else {}
    return shared | own


def _types(name: str) -> dict[str, dict[str, str]]:
    """Return logical id -> resource type, by stack of the environment."""
    environment = load_environment(name, ROOT)
    if environment.serving:
        environment = environment.model_copy(update={"release": RELEASE})
    deployment = Deployment(environment, launch_of(environment, ROOT))
    with tempfile.TemporaryDirectory() as outdir:
        app = ShoalApp(outdir=outdir, context=feature_flags(ROOT), checked=False)
        stage = EnvironmentStage(app, workloads=[deployment], root=ROOT)
        stacks = [each for each in stage.node.children if isinstance(each, cdk.Stack)]
        resources = {each.node.id: template_of_stack(each) for each in stacks}
    return {
        part: {key: each["Type"] for key, each in template["Resources"].items()}
        for part, template in resources.items()
    }


def test_logical_ids_are_those_written_down() -> None:
    assert logical_ids() == json.loads(FILE.read_text())


DOCUMENT: dict[str, Any] = table(__file__, "cases.yaml")["document"]


@pytest.mark.parametrize("row", rows_of_templates(), ids=str)
def test_a_template_is_as_its_row_says(template_of: TemplateOf, row: Row) -> None:
    assert [*differences(row, template_of(row.environment, row.stack))] == []


@pytest.mark.parametrize(("fields", "told"), rows(__file__, "cases.yaml", "told"))
def test_what_is_not_so_is_told(fields: dict[str, Any], told: str) -> None:
    row = Row("dev", "data", "wrong", fields)
    assert [text for text in differences(row, DOCUMENT) if told in text]


LITTLE: dict[str, Any] = {
    "endpoint": "none",
    "evaluation": {"gates": [{"metric": "a", "at_least": 1}]},
}


def test_nothing_that_settings_take_away_is_imported(make_variant: MakeVariant) -> None:
    before, after = (
        {
            each.stack_name: each.template
            for each in make_variant("changing", **sections).synth().stacks
        }
        for sections in (EVERYTHING, LITTLE)
    )
    assert len(before.keys() - after.keys()) == 3  # file system, image, serving
    in_use = set(re.findall(r"'Fn::ImportValue': '([^']+)'", str(before)))
    assert len(in_use) > 5
    outputs = [each for template in after.values() for each in template.get("Outputs", {}).values()]
    assert in_use - {each["Export"]["Name"] for each in outputs if "Export" in each} == set()


if __name__ == "__main__":
    FILE.write_text(json.dumps(logical_ids(), indent=1) + "\n")


TAGS = {"cost-center": "4711", "Owner": "Team Müller"}
TEAM: dict[str, Any] = table(__file__, "cases.yaml")["team"]
Stacks = dict[str, Any]


@pytest.fixture(scope="module")
def every_stack(tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]) -> Stacks:
    """Return the stacks of an environment with all that it may have, and of its delivery."""
    environment = variant(tmp_path_factory.mktemp("tagged"), "tagged", tags=TAGS, **EVERYTHING)
    app = ShoalApp(outdir=str(tmp_path_factory.mktemp("out")), context=cdk_context, checked=False)
    app.add_environment((environment,), root=ROOT)
    app.add_delivery((environment,))
    return {each.stack_name: each for each in app.synth().stacks_recursively}


@pytest.fixture(scope="module")
def team_stacks(tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]) -> Stacks:
    """Return the stacks of two workloads, of which one has tags of its own."""
    root = tmp_path_factory.mktemp("team")
    copy_workloads(root)
    (root / "environments" / "team.yaml").write_text(yaml.safe_dump(TEAM))
    app = ShoalApp(outdir=str(tmp_path_factory.mktemp("out")), context=cdk_context, checked=False)
    app.add_environment(load_workloads("team", root), root=root)
    return {each.stack_name: each for each in app.synth().stacks_recursively}


def tagged(template: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the type and the tags of every resource that takes some, as its schema says."""
    for resource in template["Resources"].values():
        kind, properties = resource["Type"], resource.get("Properties", {})
        if not kind.startswith("AWS::"):
            continue
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
        tagging = schema.get("tagging", {})
        if tagging.get("taggable", schema.get("taggable")) is not False:
            tags = properties.get(tagging.get("tagProperty", "/properties/Tags")[12:], {})
            pairs = tags if isinstance(tags, dict) else {e["Key"]: e["Value"] for e in tags}
            yield kind, pairs


def test_every_resource_that_takes_tags_has_them(every_stack: Stacks) -> None:
    kinds, own = set[str](), {*TAGS.items()}
    for stack in every_stack.values():
        assert stack.tags.items() >= own
        for kind, tags in tagged(stack.template):
            kinds.add(kind)
            assert tags.items() >= own, kind
    build = json.dumps(every_stack["shoal-mnist-tagged-image"].template)
    assert "--tags 'Key=" in build  # of the parameter that has the image's digest
    assert len(every_stack) == 8
    assert len(kinds) > 25


def test_a_workloads_tags_lie_over_those_of_what_all_share(team_stacks: Stacks) -> None:
    own = {"cost-center": "2", "owner": "platform", "data-class": "internal"}
    shared = {"cost-center": "1", "owner": "platform"}
    for name, stack in team_stacks.items():
        expected = own if name.startswith("shoal-mnist-") else shared
        every = [stack.tags, *(tags for _, tags in tagged(stack.template))]
        for tags in every:
            assert {key: tags[key] for key in own if key in tags} == expected
    filters = {
        name.split("-")[1]: resource["Properties"]["Budget"]["CostFilters"]["TagKeyValue"]
        for name, stack in team_stacks.items()
        for resource in stack.template["Resources"].values()
        if resource["Type"] == "AWS::Budgets::Budget"
    }
    assert filters == {"mnist": ["user:cost-center$2"], "prices": ["user:cost-center$1"]}
