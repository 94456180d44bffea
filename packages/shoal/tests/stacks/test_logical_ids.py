"""Templates: the rows of templates.yaml, logical ids that are written down, and exports.

A logical id is a contract with what is deployed: CloudFormation replaces a resource whose id
changes, a bucket with its data included. When that is intended,
`python -m tests.stacks.test_logical_ids` writes logical_ids.json again. Nor does a stack withdraw
an export that another, deployed before with other settings, still imports: CloudFormation refuses
that (user guide, "Fn::ImportValue").
"""

from __future__ import annotations

import json
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shoal.constructs import use_installed_node
from shoal.launch import launch_of
from shoal.settings.loading.loader import load_environment
from tests.repository import ROOT
from tests.settings.releases import CONTENT, RELEASE
from tests.stacks.conftest import MakeVariant, TemplateOf
from tests.stacks.template_rows import Row, differences, rows

FILE = Path(__file__).with_name("logical_ids.json")


def logical_ids() -> dict[str, dict[str, str]]:
    """Return logical id -> resource type, by `<environment>/<stack>`."""
    use_installed_node()
    import aws_cdk as cdk  # starts Node.js
    from aws_cdk.assertions import Template

    from shoal.constructs.app import Deployment, feature_flags
    from stacks.platform import EnvironmentStage
    from tests.app import ShoalApp

    types = {}
    with tempfile.TemporaryDirectory() as outdir:
        app = ShoalApp(
            outdir=outdir,
            context=feature_flags(ROOT),
            checked=False,
        )
        for name in ("dev", "prod"):
            environment = load_environment(name, ROOT)
            if environment.serving:
                environment = environment.model_copy(update={"release": RELEASE})
            stage = EnvironmentStage(
                app, workloads=[Deployment(environment, launch_of(environment, ROOT))], root=ROOT
            )
            for stack in stage.node.children:
                assert isinstance(stack, cdk.Stack)
                resources = Template.from_stack(stack).to_json()["Resources"]
                types[f"{name}/{stack.node.id}"] = {
                    key: resources[key]["Type"] for key in sorted(resources)
                }
    return types


def test_logical_ids_are_those_written_down() -> None:
    assert logical_ids() == json.loads(FILE.read_text())


DOCUMENT: dict[str, Any] = {
    "Resources": {
        "One": {
            "Type": "AWS::SNS::Topic",
            "DependsOn": ["Other"],
            "Properties": {"Name": "one", "Tags": [{"Key": "a"}]},
        }
    }
}


@pytest.fixture(scope="session")
def document_of(template_of: TemplateOf) -> Any:
    return cache(lambda *place: template_of(*place).to_json())


@pytest.mark.parametrize("row", rows(), ids=str)
def test_a_template_is_as_its_row_says(document_of: Any, row: Row) -> None:
    assert [*differences(row, document_of(row.environment, row.stack))] == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"none": ["AWS::SNS::Topic"]}, "there is a AWS::SNS::Topic"),
        ({"only": ["AWS::SQS::Queue"]}, "there is a AWS::SNS::Topic"),
        ({"one": "AWS::SQS::Queue"}, "there are 0, not 1"),
        ({"every": "AWS::SQS::Queue", "has": {"Name": "one"}}, "nothing is found"),
        ({"every": "AWS::SNS::Topic", "count": 2}, "there are 1, not 2"),
        ({"one": "AWS::SNS::Topic", "has": {"Name": "other"}}, "One.Name is one, not other"),
        ({"one": "AWS::SNS::Topic", "has": {"Name": "~x"}}, "One.Name is one, which has no x"),
        ({"one": "AWS::SNS::Topic", "has": {"Tags": []}}, "One.Tags is"),
        ({"one": "AWS::SNS::Topic", "has": {"Tags": {"some": {"Key": "b"}}}}, "of which none is"),
        ({"one": "AWS::SNS::Topic", "has": {"Tags": {"all_of": ["~b"]}}}, "of which none is ~b"),
        ({"one": "AWS::SNS::Topic", "has": {"Absent": {"Key": 1}}}, "One.Absent is None"),
        ({"one": "AWS::SNS::Topic", "lacks": ["Name"]}, "One has Name"),
        ({"one": "AWS::SNS::Topic", "beside": {"DependsOn": ["x"]}}, "One.DependsOn[0] is Other"),
        ({"one": "AWS::SNS::Topic", "whose": 1}, "unknown fields"),
    ],
)
def test_what_is_not_so_is_told(fields: dict[str, Any], told: str) -> None:
    row = Row("dev", "data", "wrong", fields)
    assert [text for text in differences(row, DOCUMENT) if told in text]


COMPARED = {"metric": "accuracy", "not_worse_than": "approved", "direction": "higher"}
EVERYTHING: dict[str, Any] = {
    "data": {"input_mode": "FSx"},
    "file_system": {},
    "training": {"build_image": "pytorch-smddp"},
    "evaluation": {"gates": [{"metric": "accuracy", "at_least": 0.9}, COMPARED]},
    "schedules": [{"name": "nightly", "expression": "rate(1 day)"}],
    "release": CONTENT,
    "serving": {},
}
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
    in_use = {name for template in before.values() for name in _imports(template)}
    assert len(in_use) > 5
    assert in_use - _exports(after) == set()


def _imports(template: dict[str, Any]) -> set[str]:
    return set(re.findall(r"'Fn::ImportValue': '([^']+)'", str(template)))


def _exports(templates: dict[str, dict[str, Any]]) -> set[str]:
    return {
        output["Export"]["Name"]
        for template in templates.values()
        for output in template.get("Outputs", {}).values()
        if "Export" in output
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(logical_ids(), indent=1) + "\n")
