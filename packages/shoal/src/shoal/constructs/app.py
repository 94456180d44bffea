"""The CDK app: every synth runs cdk-nag, the CDK's own CloudFormation validator and our rules.

With the context key `shoal:raw-findings` nothing is acknowledged and two further packs of cdk-nag
run: for the report, not as a gate.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

import aws_cdk as cdk
import jsii

from shoal.constructs.roles.actor_role import RAW_FINDINGS
from shoal.constructs.template_rules import findings
from shoal.launch import Launch
from shoal.pipelines.checks.check import check
from shoal.settings.loading.consumers import Consumer, consumers_of, left_out_of, require_own_names
from shoal.settings.loading.loader import environment_names, load_workloads
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment

_FLAGS = Path(__file__).with_name("feature_flags.json")


@dataclass(frozen=True)
class Deployment:
    """One workload of an environment, and what trains it."""

    environment: Environment
    launch: Launch


class Stage(Protocol):
    """What makes the stacks of one environment: `stacks.platform.EnvironmentStage`."""

    def __call__(self, *arguments: Any, **options: Any) -> cdk.Stage: ...


class Delivery(Protocol):
    """What makes the stack that lets workflows deploy: `stacks.delivery.DeliveryStack`."""

    def __call__(self, *arguments: Any, **options: Any) -> cdk.Stack: ...


def feature_flags(root: Path) -> dict[str, Any]:
    """Return the CDK's feature flags that Shoal's templates are made with, and over them the
    context of cdk.json, which only the CDK's CLI hands over by itself.
    """
    flags: dict[str, Any] = json.loads(_FLAGS.read_text(encoding="utf-8"))
    return flags | json.loads((root / "cdk.json").read_text(encoding="utf-8")).get("context", {})


@jsii.implements(cdk.IPolicyValidationPlugin)
class OwnRules:
    """The plugin of the CDK's validation with our own rules: a finding fails the synth."""

    @property
    def name(self) -> str:
        return "Shoal"

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        """Called by the CDK with the paths of all templates."""
        templates = {
            path: json.loads(Path(path).read_text(encoding="utf-8"))
            for path in context.template_paths
        }
        violations = [
            cdk.PolicyViolation(
                rule_name=finding.rule,
                description=finding.text,
                severity="error",
                violating_resources=[
                    cdk.PolicyViolatingResource(
                        resource_logical_id=finding.logical_id, locations=[], template_path=path
                    )
                ],
            )
            for path, finding in findings(templates)
        ]
        return cdk.PolicyValidationPluginReport(success=not violations, violations=violations)


class ShoalApp(cdk.App):
    """The app with its gates, for the stacks that `stage` and `delivery` make.

    `checked=False` leaves them out: for unit tests, which look at templates only.
    """

    def __init__(
        self,
        *,
        stage: Stage,
        delivery: Delivery,
        outdir: str | None = None,
        context: Mapping[str, Any] | None = None,
        checked: bool = True,
    ) -> None:
        # Without analytics there is no CDK::Metadata resource, which would carry the Python version
        # into every template.
        super().__init__(
            outdir=outdir,
            context=context,
            analytics_reporting=False,
            builtin_cloud_formation_validation=checked,
        )
        self._make_stage, self._make_delivery = stage, delivery
        if checked:
            from cdk_nag import AwsSolutionsChecks  # Node.js loads all of its rules

            cdk.Validations.of(self).add_plugins(OwnRules(), AwsSolutionsChecks(self))
        if self.node.try_get_context(RAW_FINDINGS):
            from cdk_nag import NIST80053R5Checks, ServerlessChecks

            cdk.Validations.of(self).add_plugins(NIST80053R5Checks(self), ServerlessChecks(self))

    def synthesise(self, root: Path) -> int:
        """Write the templates of the repository at `root`, and tell its owners what they should
        know; return the exit code, 1 for a mistake in the settings.
        """
        try:
            notices = self.add_checkout(root)
        except ConfigError as error:
            print(error, file=sys.stderr)
            return 1
        for notice in notices:
            print(notice, file=sys.stderr)
        self.synth()
        return 0

    def add_checkout(self, root: Path) -> list[str]:
        """Add every environment of the repository at `root`, and what belongs to an account;
        returns what their owners should know.

        The context keys `environment` and `strategy` choose one environment, and the overlay to
        load environments with. Raises ConfigError for a mistake in any of them.
        """
        chosen, strategy = (self.node.try_get_context(key) for key in ("environment", "strategy"))
        names = [chosen] if chosen else environment_names(root)
        every = [load_workloads(name, root, strategy) for name in names]
        require_own_names(each for workloads in every for each in workloads)
        notices: list[str] = []
        for workloads in every:
            consumers = consumers_of(workloads[0], root)
            notices += self.add_environment(
                workloads, root=root, strategy=strategy, consumers=consumers
            )
        environments = [workloads[0] for workloads in every]
        notices += [
            f"{environment.name}: {each.name} takes releases from here, but its account"
            f" {each.account} is a placeholder from documentation: no policy names it until"
            " its file names an account of yours"
            for environment in environments
            for each in left_out_of(environment, root)
        ]
        if not chosen:
            self.add_delivery(environments)
        return notices

    def add_environment(
        self,
        workloads: Sequence[Environment],
        *,
        root: Path,
        strategy: str | None = None,
        consumers: Sequence[Consumer] = (),
    ) -> list[str]:
        """Add the stacks of one environment of the repository at `root`, with its `workloads`;
        returns what its owner should know.

        `strategy` is the overlay that the environment was loaded with; `consumers` take its
        releases.

        Raises ConfigError when something in it would fail later.
        """
        deployments, notices = [], []
        for workload in workloads:
            result = check(workload, root=root, strategy=strategy)
            deployments.append(Deployment(workload, result.launch))
            notices += [f"{workload.title}: {notice}" for notice in result.notices]
        self._make_stage(self, workloads=deployments, root=root, consumers=consumers)
        return notices

    def add_delivery(self, environments: Iterable[Environment]) -> None:
        """Add the stack that lets workflows deploy, for each account with a section `delivery`."""
        account = attrgetter("account")
        delivered = sorted((each for each in environments if each.delivery), key=account)
        for _, in_account in groupby(delivered, account):
            self._make_delivery(self, environments=[*in_account])
