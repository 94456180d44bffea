"""Plugins of the CDK's validation, which run at every synth beside cdk-nag and fail it: our rules,
and the CDK's own in another process.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii

from stacks.validation import file_systems, identities, pipelines, schedules, security_groups
from stacks.validation.findings import Finding, Rule, Template
from stacks.validation.validator import Validator

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
    """Add it with `Validations.of(app).add_plugins`, before those that take long: `beside`
    begins when it is called.
    """

    def __init__(self, beside: CloudFormationRules | None = None) -> None:
        self._beside = beside

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
        if self._beside:
            self._beside.begin(context)
        templates = {
            path: json.loads(Path(path).read_text(encoding="utf-8"))
            for path in context.template_paths
        }
        broken = list(findings(templates))
        return cdk.PolicyValidationPluginReport(
            success=not broken, violations=[_violation(path, each) for path, each in broken]
        )


@jsii.implements(cdk.IPolicyValidationPlugin)
class CloudFormationRules:
    """The CDK's own plugin as the process `validator` ran it, under its name; if that came to no
    report, it runs in the CDK's process.
    """

    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self._version: str | None = None

    @property
    def name(self) -> str:
        return "CloudFormation Validate"

    @property
    def version(self) -> str | None:
        """Known once it has validated, which is when the CDK asks for it."""
        return self._version

    @property
    def rule_ids(self) -> list[str] | None:
        return None

    def begin(self, context: cdk.IPolicyValidationContext) -> None:
        """Hand all stacks to the process; what the CDK does until it calls `validate` happens at
        the same time.
        """
        self._validator.begin([_stack(each) for each in context.stack_templates])

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        """Called by the CDK with all stacks, after `begin`."""
        report = self._validator.report()
        if report is None:
            plugin = cdk.CloudFormationValidatePlugin()
            self._version = plugin.version
            return plugin.validate(context)
        self._version = report["version"]
        return cdk.PolicyValidationPluginReport(
            success=report["success"], violations=[_reported(each) for each in report["violations"]]
        )


def findings(templates: Mapping[str, Template]) -> Iterator[tuple[str, Finding]]:
    """Yield the path of a template and what is wrong with it, for all templates."""
    for path, template in templates.items():
        for rule in RULES:
            yield from ((path, finding) for finding in rule(template))
    for stage in _stages(templates).values():
        for finding in pipelines.check_network(list(stage.values())):
            yield (
                next(
                    path
                    for path, template in stage.items()
                    if finding.logical_id in template["Resources"]
                ),
                finding,
            )


def _stages(templates: Mapping[str, Template]) -> dict[str, dict[str, Template]]:
    """Return the templates by stage: those of one stage lie in one folder."""
    stages: dict[str, dict[str, Template]] = defaultdict(dict)
    for path, template in templates.items():
        stages[str(Path(path).parent)][path] = template
    return stages


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


def _stack(stack: cdk.PolicyValidationStack) -> dict[str, Any]:
    """A stack as the CDK's plugin gets it inside Node.js; what is not known is left out."""
    known = {
        "stackConstructPath": stack.stack_construct_path,
        "templatePath": stack.template_path,
        "accountId": stack.account_id,
        "region": stack.region,
    }
    return {name: value for name, value in known.items() if value is not None}


def _reported(violation: Mapping[str, Any]) -> cdk.PolicyViolation:
    return cdk.PolicyViolation(
        rule_name=violation["ruleName"],
        description=violation["description"],
        severity=violation["severity"],
        fix=violation.get("fix"),
        rule_metadata=violation.get("ruleMetadata"),
        violating_resources=[_resource(each) for each in violation["violatingResources"]],
    )


def _resource(resource: Mapping[str, Any]) -> cdk.PolicyViolatingResource:
    return cdk.PolicyViolatingResource(
        resource_logical_id=resource.get("resourceLogicalId"),
        construct_path=resource.get("constructPath"),
        template_path=resource.get("templatePath"),
        locations=resource["locations"],
    )
