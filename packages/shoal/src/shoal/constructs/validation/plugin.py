"""The plugin of the CDK's validation with our own rules, which runs at every synth beside cdk-nag
and the CDK's own rules, and fails it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import aws_cdk as cdk
import jsii

from shoal.constructs.validation import (
    file_systems,
    identities,
    pipelines,
    schedules,
    security_groups,
)
from shoal.constructs.validation.findings import Finding, Rule, Template

NAME = "Shoal"
RULES: tuple[Rule, ...] = (
    security_groups.check,
    file_systems.check,
    schedules.check,
    identities.check,
    pipelines.check,
)


@jsii.implements(cdk.IPolicyValidationPlugin)
class OwnRules:
    """Add it with `Validations.of(app).add_plugins`."""

    @property
    def name(self) -> str:
        return NAME

    @property
    def version(self) -> str | None:
        return None

    @property
    def rule_ids(self) -> list[str] | None:
        return None

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        """Called by the CDK with the paths of all templates."""
        templates = {
            path: json.loads(Path(path).read_text(encoding="utf-8"))
            for path in context.template_paths
        }
        broken = list(findings(templates))
        return cdk.PolicyValidationPluginReport(
            success=not broken, violations=[_violation(path, each) for path, each in broken]
        )


def findings(templates: Mapping[str, Template]) -> Iterator[tuple[str, Finding]]:
    """Yield the path of a template and what is wrong with it, for all templates.

    The templates of one stage lie in one folder.
    """
    stages: dict[Path, dict[str, Template]] = defaultdict(dict)
    for path, template in templates.items():
        stages[Path(path).parent][path] = template
        for rule in RULES:
            yield from ((path, finding) for finding in rule(template))
    for stage in stages.values():
        yield from pipelines.check_network(stage)


def _violation(path: str, finding: Finding) -> cdk.PolicyViolation:
    resource = cdk.PolicyViolatingResource(
        resource_logical_id=finding.logical_id, locations=[], template_path=path
    )
    return cdk.PolicyViolation(
        rule_name=finding.rule,
        description=finding.text,
        severity="error",
        violating_resources=[resource],
    )
