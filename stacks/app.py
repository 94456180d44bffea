"""The CDK app: every synth runs cdk-nag, the CDK's own CloudFormation validator and our rules.

With the context key `shoal:raw-findings` nothing is acknowledged and two further packs of cdk-nag
run: for the report, not as a gate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from config.consumers import Consumer, consumers_of, left_out_of, require_own_names
from config.loader import environment_names, load_workloads
from config.settings import Environment
from pipelines.check import check
from stacks.constructs.acknowledge import RAW_FINDINGS
from stacks.stage import Deployment, EnvironmentStage
from stacks.validation.plugin import OwnRules


def feature_flags(root: Path) -> dict[str, Any]:
    """Return the context of cdk.json, which only the CDK's CLI hands over by itself."""
    context: dict[str, Any] = json.loads((root / "cdk.json").read_text())["context"]
    return context


class ShoalApp(cdk.App):
    """The app with its gates.

    `checked=False` leaves them out: for unit tests, which look at templates only.
    """

    def __init__(
        self,
        *,
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
        if checked:
            from cdk_nag import AwsSolutionsChecks  # Node.js loads all of its rules

            cdk.Validations.of(self).add_plugins(OwnRules(), AwsSolutionsChecks(self))
        if self.node.try_get_context(RAW_FINDINGS):
            from cdk_nag import NIST80053R5Checks, ServerlessChecks

            cdk.Validations.of(self).add_plugins(NIST80053R5Checks(self), ServerlessChecks(self))

    def add_checkout(self, root: Path) -> list[str]:
        """Add every environment of the repository at `root`, and what belongs to an account;
        returns what their owners should know.

        The context keys `environment` and `strategy` choose one environment, and the overlay to
        load environments with. Raises ConfigError for a mistake in any of them.
        """
        chosen, strategy = (self.node.try_get_context(key) for key in ("environment", "strategy"))
        names = [chosen] if chosen else environment_names(root)
        by_name = {name: load_workloads(name, root, strategy) for name in names}
        environments = [workloads[0] for workloads in by_name.values()]
        require_own_names(each for workloads in by_name.values() for each in workloads)
        notices = [
            notice
            for workloads in by_name.values()
            for notice in self.add_environment(
                workloads,
                root=root,
                strategy=strategy,
                consumers=consumers_of(workloads[0], root),
            )
        ]
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
        checked = [check(workload, root=root, strategy=strategy) for workload in workloads]
        deployments = [
            Deployment(workload, result.launch)
            for workload, result in zip(workloads, checked, strict=True)
        ]
        EnvironmentStage(self, workloads=deployments, root=root, consumers=consumers)
        return [
            f"{workload.title}: {notice}"
            for workload, result in zip(workloads, checked, strict=True)
            for notice in result.notices
        ]

    def add_delivery(self, environments: Iterable[Environment]) -> None:
        """Add the stack that lets workflows deploy, for each account with an environment that has a
        section `delivery`.
        """
        with_delivery = [environment for environment in environments if environment.delivery]
        if not with_delivery:
            return
        # It imports parts of the CDK that most apps do not need.
        from stacks.delivery_stack import DeliveryStack

        for account in sorted({environment.account for environment in with_delivery}):
            in_account = [
                environment for environment in with_delivery if environment.account == account
            ]
            DeliveryStack(self, environments=in_account)
