"""A customer's tags are on everything that takes tags, also on what executions make."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from shoal.settings.loading.loader import load_workloads
from tests.app import ShoalApp
from tests.repository import ROOT
from tests.settings.environment_file import copy_workloads
from tests.settings.releases import CONTENT
from tests.stacks.conftest import variant

TAGS = {"cost-center": "4711", "Owner": "Team Müller"}
NETWORK = {"training_az_id": "use1-az4", "hosting_az_ids": ["use1-az1", "use1-az2"]}
EVERYTHING: dict[str, Any] = {
    "tags": TAGS,
    "data": {"input_mode": "FSx"},
    "delivery": {"repository": "acme/models"},
    "file_system": {"deployment_type": "PERSISTENT_2", "throughput_mbps_per_tib": 250},
    "mlflow": {"create": True},
    "network": NETWORK | {"nat": True, "interface_endpoints": ["sts"]},
    "observability": {"monthly_budget_usd": 5, "alert_emails": ["ml@example.com"]},
    "promoted_from": "dev",
    "release": CONTENT,
    "schedules": [{"name": "nightly", "expression": "cron(0 3 * * ? *)"}],
    "scoring": {"schedules": [{"name": "scores", "expression": "cron(0 4 * * ? *)"}]},
    "serving": {"autoscaling": {"min": 2, "max": 4, "invocations_per_instance": 600}},
    "training": {"build_image": "pytorch-smddp"},
}
TEAM: dict[str, Any] = {
    "name": "team",
    "account": "111122223333",
    "tags": {"cost-center": "1", "owner": "platform"},
    "required_tags": {"cost-center": ["1", "2"], "owner": []},
    "cost_allocation_tags": ["cost-center"],
    "network": NETWORK,
    "training": {"strategy": "torchrun", "instance_type": "ml.m5.xlarge"},
    "observability": {"monthly_budget_usd": 5},
    "workloads": {"mnist": {"tags": {"cost-center": "2", "data-class": "internal"}}, "prices": {}},
}
Stacks = dict[str, Any]


@pytest.fixture(scope="module")
def every_stack(tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]) -> Stacks:
    """Return the stacks of an environment with all that it may have, and of its delivery."""
    environment = variant(tmp_path_factory.mktemp("tagged"), "tagged", **EVERYTHING)
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
