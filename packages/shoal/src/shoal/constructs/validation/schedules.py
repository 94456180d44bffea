"""Schedule expressions of EventBridge and its Scheduler, which CloudFormation checks only when it
creates them.

packages/shoal/src/shoal/settings/parsing/schedule_expressions.py has their grammar.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoal.constructs.validation.findings import Finding, Template, resources
from shoal.settings.parsing.schedule_expressions import mistakes_in

EXPRESSION = "SHOAL-ScheduleExpression"
_TYPES = {"AWS::Events::Rule": False, "AWS::Scheduler::Schedule": True}
"""Type -> whether it takes at(...)."""


def check(template: Template) -> Iterator[Finding]:
    """Yield every invalid schedule expression of the template."""
    for resource_type, takes_at in _TYPES.items():
        for logical_id, properties in resources(template, resource_type):
            expression = properties.get("ScheduleExpression")
            if isinstance(expression, str):
                for mistake in mistakes_in(expression, takes_at=takes_at):
                    yield Finding(EXPRESSION, logical_id, f"{expression}: {mistake}")
