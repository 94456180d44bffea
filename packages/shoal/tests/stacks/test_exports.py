"""Settings that take something away deploy: no stack withdraws an export that another, deployed
before with the old settings, still imports. CloudFormation refuses that (user guide,
"Fn::ImportValue").
"""

from __future__ import annotations

import re
from typing import Any

from tests.settings.releases import CONTENT
from tests.stacks.conftest import MakeVariant

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
