"""A step has its name in one place, which pages of runs read too."""

from __future__ import annotations

import json
import re

import pytest

from shoal.aws.execution import Execution, Step
from shoal.page.readings.report import answers_of, conditions
from shoal.pipelines import step_names
from tests.pipelines.inputs import compared

NAMES = [name for name in vars(step_names) if name.isupper()]
ANSWERS = '[{"request": "a", "passed": true, "shown": {}}]'


@pytest.mark.parametrize("constant", NAMES)
def test_a_renamed_step_is_found_by_whoever_looks_for_it(
    constant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, old = list(conditions(compared())), getattr(step_names, constant)
    monkeypatch.setattr(step_names, constant, "Renamed")
    definition = compared()
    text = json.dumps(definition)
    assert '"Name": "Renamed"' in text
    assert not re.search(rf'"Name": "{old}"|\bSteps\.{old}\b', text)
    assert before == list(conditions(definition))
    output = {"OutputParameters": [{"Name": "answers", "Value": ANSWERS}]}
    smoke_test = Step(step_names.SMOKE_TEST, "Lambda", "Succeeded", metadata={"Lambda": output})
    (answer,) = answers_of(Execution("arn", "Succeeded", "", None, (smoke_test,)))
    assert answer["passed"]
