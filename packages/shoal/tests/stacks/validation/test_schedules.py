"""Schedule expressions of templates; their grammar is tested in
packages/shoal/tests/settings/test_schedule_expressions.py.
"""

from __future__ import annotations

import pytest

from shoal.constructs.validation.schedules import EXPRESSION, check


@pytest.mark.parametrize("resource_type", ["AWS::Events::Rule", "AWS::Scheduler::Schedule"])
def test_a_wrong_expression_is_found_on_its_resource(resource_type: str) -> None:
    (finding,) = check(
        {
            "Resources": {
                "Nightly": {
                    "Type": resource_type,
                    "Properties": {"ScheduleExpression": "cron(0 1 * * * *)"},
                }
            }
        }
    )
    assert (finding.rule, finding.logical_id) == (EXPRESSION, "Nightly")
